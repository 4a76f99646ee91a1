import { execFile } from 'node:child_process'
import { ApiError } from '../../contract/errors.ts'
import { isId } from '../../contract/ids.ts'
import { createKeyExchange, endKey, NoTokenError } from '../../contract/key-exchange.ts'
import { endedOrAborted } from '../../platform/abort.ts'
import type { CiJob, CiTokens, ClientConfig } from '../../platform/config/client.ts'
import { withCleanUp } from './clean-up.ts'
import { CommandError } from './command-error.ts'
import { explain } from './errors.ts'

/** The settings of a client. Its `fetch` sends the key that is valid at the time of the request. */
export interface JobConfig extends ClientConfig {
  readonly fetch: typeof fetch
}

type Target = CiJob & { readonly baseUrl: string }

/** The end waits this long for a requested key, and then for the revocation of all keys. */
const endMs = 5_000

/**
 * Exchanges a CI job's identity for a key of one project, runs `work` with it, and revokes it. A build may take longer
 * than a key is valid, so the next key is requested in time.
 */
export async function withJobKey<T>(
  job: Target,
  project: string | undefined,
  work: (config: JobConfig) => Promise<T>,
): Promise<T> {
  if (project === undefined || !isId('project', project)) {
    throw new CommandError(
      `A job of ${job.ci} deploys to the project that trusts it: give --project with its id (proj_…), which its page in ` +
        'the dashboard shows. With a key in FAIRLEAD_API_KEY, the name is enough.',
    )
  }
  const keys = createKeys(job, project)
  return withCleanUp(keys.end, async () => {
    try {
      const first = await keys.current()
      return await work({ baseUrl: job.baseUrl, apiKey: first, fetch: fetchWith(keys.current) })
    } catch (error) {
      // The cause says what is missing in the CI job.
      throw withRule(explain(error instanceof NoTokenError ? error.cause : error, job), keys.refused(error))
    }
  })
}

function withRule(error: unknown, rule: string | null): unknown {
  if (rule === null || !(error instanceof CommandError)) return error
  return new CommandError(
    `${error.message}\nA rule of the project is made in the dashboard, or on the server's machine by\n  ${rule}`,
  )
}

const fetchWith =
  (current: () => Promise<string>): typeof fetch =>
  async (target, init) => {
    const headers = new Headers(init?.headers)
    headers.set('authorization', `Bearer ${await current()}`)
    return fetch(target, { ...init, headers })
  }

/** Exchanges tokens of the job for keys. Earlier keys stay valid until they expire or `end` revokes them. */
function createKeys(job: Target, projectId: string) {
  const address = new URL(job.baseUrl).origin
  const made: string[] = []
  const ask = tokensOf(job, address)
  let token = ''
  const exchange = createKeyExchange({
    address,
    projectId,
    async requestToken() {
      token = await ask()
      return token
    },
    onKey: ({ apiKey }) => void made.push(apiKey),
  })
  return {
    current: () => exchange.key(),

    /** Returns the trust rule that would allow the last token, when no rule of the server allows it; otherwise null. */
    refused(error: unknown): string | null {
      const isRefused = error instanceof ApiError && error.code === 'forbidden' && made.length === 0
      return isRefused ? ruleFor(token, projectId) : null
    },

    /** Revokes all keys. A key that cannot be revoked expires later. */
    async end(): Promise<void> {
      await endedOrAborted(exchange.end(), AbortSignal.timeout(endMs))
      const signal = AbortSignal.timeout(endMs)
      await Promise.allSettled(made.splice(0).map((apiKey) => endKey({ address, apiKey, signal })))
    },
  }
}

const timeoutMs = 30_000

/**
 * Returns a function that gets an OIDC token of the job for an audience. Each call gets a new token, because a server
 * accepts a token only once. Rejects with a `CommandError` that says how to get a token; no message quotes a token.
 */
function tokensOf({ ci, tokens }: CiJob, audience: string): () => Promise<string> {
  let used = 0
  return async () => {
    const token = await read(ci, tokens, audience, used++)
    if (/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) return token
    throw new CommandError(`${ci} gave something else than an OIDC token.`)
  }
}

async function read(ci: string, from: CiTokens, audience: string, used: number): Promise<string> {
  if (from.kind === 'program') return run(ci, from.program, from.arguments(audience))
  if (from.kind === 'request') {
    if (from.url === '' || from.bearer === '') throw new CommandError(`This job has no OIDC token. ${from.missing}.`)
    return request(ci, from, audience)
  }
  const token = from.tokens[used]
  if (token !== undefined) return token
  if (used === 0) throw new CommandError(`This job has no OIDC token. ${from.missing} (${audience}).`)
  throw new CommandError(
    `The job's ${used === 1 ? 'OIDC token is' : `${used} OIDC tokens are`} used up: each is good for one key. ` +
      `Give the job another one in FAIRLEAD_ID_TOKEN_${used + 1}, with the same audience.`,
  )
}

/** Requests a token by the protocol of the GitHub and Forgejo runners. */
async function request(
  ci: string,
  { url, bearer }: { readonly url: string; readonly bearer: string },
  audience: string,
): Promise<string> {
  if (!URL.canParse(url)) throw new CommandError('ACTIONS_ID_TOKEN_REQUEST_URL is not an address.')
  const target = new URL(url)
  target.searchParams.set('audience', audience)
  const response = await fetch(target, {
    headers: { authorization: `Bearer ${bearer}`, accept: 'application/json' },
    redirect: 'error',
    signal: AbortSignal.timeout(timeoutMs),
  }).catch(() => {
    throw new CommandError(`${ci} gave no OIDC token: ${target.origin} does not answer.`)
  })
  if (!response.ok) throw new CommandError(`${ci} gave no OIDC token: it answered ${response.status}.`)
  const answer: unknown = await response.json().catch(() => undefined)
  const { value } = Object(answer) as { readonly value?: unknown }
  return typeof value === 'string' ? value : ''
}

function run(ci: string, program: string, args: readonly string[]): Promise<string> {
  return new Promise((done, fail) => {
    execFile(program, args, { timeout: timeoutMs, maxBuffer: 1024 * 1024 }, (error, stdout, stderr) => {
      if (error === null) return done(stdout.trim())
      const reason =
        error.code === 'ENOENT' ? `there is no program ${program} on the PATH` : stderr.trim() || 'no reason'
      fail(new CommandError(`${ci} gave no OIDC token (${program} ${args.slice(0, 3).join(' ')}): ${reason}`))
    })
  })
}

type Claims = Readonly<Record<string, unknown>>

/** Claims with the repository: GitHub and Forgejo, GitLab, Buildkite, CircleCI. */
const names = ['repository', 'project_path', 'oidc.circleci.com/vcs-origin']
const ids = ['repository_id', 'project_id', 'pipeline_id', 'oidc.circleci.com/project-id']

/**
 * Returns the command that makes a project trust the repository of a token; null when the claims name no repository.
 * Only advice for a person: the server decides.
 */
function ruleFor(token: string, project: string): string | null {
  const claims = claimsOf(token)
  const text = (name: string): string | undefined => {
    const value = claims[name]
    // A shell reads these characters as one word.
    return typeof value === 'string' && /^[\w./:@-]{1,255}$/.test(value) ? value : undefined
  }
  const first = (of: readonly string[]) => of.map(text).find((value) => value !== undefined)
  const [organization, pipeline] = [text('organization_slug'), text('pipeline_slug')]
  const repository = organization && pipeline ? `${organization}/${pipeline}` : first(names)
  const [issuer, id] = [text('iss'), first(ids)]
  if (issuer === undefined || repository === undefined) return null
  const event = text('event_name') ?? text('pipeline_source')
  return [
    `fairlead trust add ${project} --issuer ${issuer} --repository ${repository}`,
    ...(id === undefined ? [] : [`--repository-id ${id}`]),
    ...(event !== undefined && /(pull|merge)_request/.test(event) ? [`--event ${event}`] : []),
  ].join(' ')
}

function claimsOf(token: string): Claims {
  try {
    return Object(JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'))) as Claims
  } catch {
    return {}
  }
}
