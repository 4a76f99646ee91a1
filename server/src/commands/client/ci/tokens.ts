import { execFile } from 'node:child_process'
import type { CiJob, CiTokens } from '../../../platform/config/ci.ts'
import { CommandError } from '../command-error.ts'

const timeoutMs = 30_000

/**
 * Returns a function that gets an OIDC token of the job for an audience: another one each time, because a server accepts
 * each only once. It rejects with a `CommandError` that says how to get one; no message has a part of a token.
 */
export function tokensOf({ ci, tokens }: CiJob, audience: string): () => Promise<string> {
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

/** The protocol of the runners of GitHub and Forgejo. */
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
