import { parseVariables, type Variables } from './env-vars.ts'
import { branchOf, type Environment, repositoryOf } from './github.ts'

export const inputNames = [
  'api-url',
  'api-key',
  'project-id',
  'name',
  'branch',
  'git-url',
  'env-vars',
  'wait',
  'timeout',
] as const
export type InputName = (typeof inputNames)[number]

export interface Inputs {
  /** The server's address without `/v1`, for messages. */
  readonly apiUrl: string
  readonly apiKey: string
  readonly projectId: string
  /** The app's name. */
  readonly name: string
  readonly branch: string
  readonly gitUrl: string
  readonly variables: Variables
  readonly wait: boolean
  readonly timeoutSeconds: number
}

/** One thing that is wrong with the inputs, and what to do. It never holds the value of a secret. */
export interface InputProblem {
  readonly input: InputName
  readonly message: string
}

type Read<T> = { readonly value: T } | { readonly problem: string } | { readonly problems: readonly string[] }

/**
 * Reads all inputs and fills in what the workflow's environment gives. `input` returns the trimmed text of an input,
 * empty when it was not given: the runner checks nothing, not even `required`. Reports everything that is wrong.
 */
export function readInputs(
  input: (name: InputName) => string,
  env: Environment,
): { readonly inputs: Inputs } | { readonly problems: readonly InputProblem[] } {
  const problems: InputProblem[] = []
  const take = <T>(name: InputName, read: Read<T>): T | undefined => {
    if ('value' in read) return read.value
    const messages = 'problem' in read ? [read.problem] : read.problems
    problems.push(...messages.map((message) => ({ input: name, message })))
    return undefined
  }

  const repository = repositoryOf(env)
  const inputs = {
    apiUrl: take('api-url', readApiUrl(input('api-url'))),
    apiKey: take('api-key', readApiKey(input('api-key'))),
    projectId: take('project-id', readProjectId(input('project-id'))),
    name: take('name', readText(input('name') || repository?.name)),
    branch: take('branch', readBranch(input('branch'), env)),
    gitUrl: take('git-url', readGitUrl(input('git-url') || repository?.gitUrl)),
    variables: take('env-vars', parseVariables(input('env-vars'))),
    wait: take('wait', readWait(input('wait') || 'true')),
    timeoutSeconds: take('timeout', readTimeout(input('timeout') || '600')),
  }
  // Whatever is not there has left a problem behind.
  return problems.length > 0 ? { problems } : { inputs: inputs as Inputs }
}

const missing = 'is missing'

function readApiUrl(text: string): Read<string> {
  const example = "the server's address, such as https://fairlead.example.com"
  if (text === '') return { problem: `${missing}. Set it to ${example}.` }
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:\/\//i.test(text)) {
    return { problem: `must begin with https:// or http://. Set it to ${example}.` }
  }
  if (url.username !== '' || url.password !== '') {
    return { problem: 'must not carry a user name or password. The key belongs in the input `api-key`.' }
  }
  if (url.search !== '' || url.hash !== '') return { problem: `must not have a "?" or "#". Set it to ${example}.` }
  const path = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '').replace(/\/+$/, '')
  return { value: url.origin + path }
}

function readApiKey(text: string): Read<string> {
  if (text === '') {
    const how = `Store a key as a secret of the repository and pass it: api-key: \${{ secrets.FAIRLEAD_API_KEY }}.`
    return { problem: `${missing}. ${how} A run for a pull request from a fork gets no secrets.` }
  }
  // Everything else cannot stand in a header.
  if (!/^[\x21-\x7e]+$/.test(text)) return { problem: 'holds spaces, line breaks or other characters that no key has.' }
  return { value: text }
}

function readProjectId(text: string): Read<string> {
  const how = "Set it to the project's id, which begins with proj_."
  if (text === '') return { problem: `${missing}. ${how}` }
  return /^proj_\w+$/.test(text) ? { value: text } : { problem: `is not the id of a project. ${how}` }
}

function readText(text: string | undefined): Read<string> {
  return text ? { value: text } : { problem: `${missing}, and this run has no repository. Set it.` }
}

function readBranch(text: string, env: Environment): Read<string> {
  if (text === '') {
    const found = branchOf(env)
    return 'branch' in found ? { value: found.branch } : found
  }
  if (!text.startsWith('refs/')) return { value: text }
  const branch = /^refs\/heads\/(.+)$/.exec(text)?.[1]
  return branch === undefined
    ? { problem: 'is a ref that is no branch. Set it to the name of a branch, such as main.' }
    : { value: branch }
}

function readGitUrl(text: string | undefined): Read<string> {
  if (text && URL.canParse(text)) {
    const { protocol, username, password } = new URL(text)
    // Refused before it is printed anywhere.
    if (password !== '' || (username !== '' && protocol !== 'ssh:')) {
      return { problem: 'must not carry a user name or password.' }
    }
  }
  return readText(text)
}

function readWait(text: string): Read<boolean> {
  if (/^true$/i.test(text)) return { value: true }
  return /^false$/i.test(text) ? { value: false } : { problem: 'must be true or false.' }
}

const longestSeconds = 86_400

function readTimeout(text: string): Read<number> {
  const seconds = /^\d{1,5}$/.test(text) ? Number(text) : 0
  return seconds >= 1 && seconds <= longestSeconds
    ? { value: seconds }
    : { problem: `must be a whole number of seconds from 1 to ${longestSeconds}.` }
}
