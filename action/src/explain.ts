import { ApiError } from '@fairlead/server/client'
import { NoTokenError } from '@fairlead/server/exchange'
import { AddressError, foreignStatus, isTransient, KeyError } from './api/answers.ts'
import type { InputName } from './inputs/inputs.ts'

/** Field of the request → its input. */
const inputOf: Readonly<Record<string, InputName>> = {
  name: 'name',
  branch: 'branch',
  commit: 'commit',
  git_url: 'git-url',
  from_deployment_id: 'from-deployment',
  image: 'image',
  root: 'root',
  git_token: 'git-token',
  env_vars: 'env-vars',
}

/** Explains why the server did not create a deployment, with one message per problem that names the input to check. */
export function explain(error: unknown, apiUrl: string): readonly string[] {
  if (error instanceof KeyError) return explainNoKey(error, apiUrl)
  if (error instanceof AddressError) return [explainPath(apiUrl)]
  if (!(error instanceof ApiError)) return [explainNoAnswer(error, apiUrl)]
  const foreign = foreignStatus(error)
  if (foreign !== undefined) return [explainForeign(foreign, apiUrl)]
  switch (error.code) {
    case 'unauthorized':
      return [`\`api-key\`: ${apiUrl} does not know this key. It may be mistyped, expired or revoked. Make a new one.`]
    case 'forbidden':
      return [
        `\`api-key\`: the key may not do this. ${error.message} It needs to write and read deployments of the project.`,
      ]
    case 'not_found':
      return [
        `\`project-id\`: there is no such project, or \`api-key\` is the key of another account. The server says: ${error.message}`,
      ]
    case 'invalid_request':
      return explainInvalid(error)
    case 'rate_limit_exceeded':
      return ['The account of `api-key` has used up its requests for now. Run the workflow again later.']
    case 'server_error':
      return [
        `The server failed: ${error.message}${error.requestId === undefined ? '' : ` (request ${error.requestId})`}`,
      ]
  }
}

/** Explains why there is no key: GitHub gave no token, or the server did not exchange it. */
function explainNoKey({ cause: error, message: command }: KeyError, apiUrl: string): readonly string[] {
  if (error instanceof NoTokenError) return [`GitHub gave no token for this job: ${reasonOf(error)}`]
  const refused = error instanceof ApiError && foreignStatus(error) === undefined && !isTransient(error)
  if (!refused) return explain(error, apiUrl)
  if (error.code === 'not_found' && new URL(apiUrl).pathname !== '/') return [explainPath(apiUrl)]
  const told = `${apiUrl} gives this workflow no key for the project: ${error.message}`
  if (error.details['reason'] === 'audience') return [`\`api-url\`: ${told} Set it to that address.`]
  // A rule would not help with an invalid token.
  if (error.code !== 'forbidden') return [`${told} Or pass an \`api-key\`.`]
  if (command === '')
    return [`${told} No rule may trust \`pull_request_target\`: use \`pull_request\`, or pass an \`api-key\`.`]
  return [
    `${told} To let the project trust such runs, make a rule in the dashboard or, on the server's machine, run \`${command}\`. ` +
      'Or pass an `api-key`.',
  ]
}

const explainPath = (apiUrl: string): string =>
  `\`api-url\`: ${apiUrl} is not the address of a Fairlead server. Leave out the path behind the host.`

function explainInvalid(error: ApiError): readonly string[] {
  const problems = error.details.errors ?? []
  if (problems.length === 0) return [`The server refused the deployment: ${error.message}`]
  return problems.map(({ field, message }) => {
    const [head = '', ...rest] = field.split('.')
    const input = Object.hasOwn(inputOf, head) ? inputOf[head] : undefined
    return `\`${input ?? field}\`: ${input === undefined || rest.length === 0 ? '' : `${rest.join('.')} `}${message}`
  })
}

function explainForeign(status: number, apiUrl: string): string {
  if (status >= 500) {
    return `\`api-url\`: ${apiUrl} answered with status ${status}, and not as Fairlead does. Is the server behind it up?`
  }
  if (status >= 300 && status < 400) {
    return `\`api-url\`: ${apiUrl} redirects elsewhere (status ${status}). Set the address that it leads to; often it begins with https://.`
  }
  return `\`api-url\`: what answers at ${apiUrl} (status ${status}) is not Fairlead. Set the address of the server.`
}

function explainNoAnswer(error: unknown, apiUrl: string): string {
  if (error instanceof Error && error.name === 'TimeoutError') {
    return `\`api-url\`: ${apiUrl} did not answer in time.`
  }
  return `\`api-url\`: there is no connection to ${apiUrl}: ${reasonOf(error)}`
}

/** Returns a code for the reason why a request failed: a code of the API, `no_key` or `no_answer`. */
export function codeOf(error: unknown): string {
  if (error instanceof KeyError) return 'no_key'
  if (error instanceof AddressError) return 'no_answer'
  return error instanceof ApiError && foreignStatus(error) === undefined ? error.code : 'no_answer'
}

/** Returns the reason of a failed request. `fetch` has it in the `cause`, such as `connect ECONNREFUSED 127.0.0.1:3000`. */
export function reasonOf(error: unknown): string {
  if (error instanceof ApiError) return `status ${foreignStatus(error) ?? error.status}`
  if (!(error instanceof Error)) return String(error)
  if (error.cause instanceof Error) return reasonOf(error.cause)
  if (error.message !== '') return error.message
  // The AggregateError of attempts at several addresses of a host has no message.
  return 'code' in error ? String(error.code) : error.name
}
