import { ApiError } from '../../../contract/errors.ts'
import { createKeyExchange, endKey, NoTokenError } from '../../../contract/exchange.ts'
import { isId } from '../../../contract/ids.ts'
import { endedOrAborted } from '../../../platform/abort.ts'
import type { CiJob } from '../../../platform/config/ci.ts'
import type { ClientConfig } from '../../../platform/config/client.ts'
import { withCleanUp } from '../clean-up.ts'
import { CommandError } from '../command-error.ts'
import { explain } from '../errors.ts'
import { ruleFor } from './rule.ts'
import { tokensOf } from './tokens.ts'

/** A client's settings; its `fetch` sends the key that is valid at that moment. */
export interface JobConfig extends ClientConfig {
  readonly fetch: typeof fetch
}

type Target = CiJob & { readonly baseUrl: string }

/** How long the end waits for a key that was asked for, and then for the answers that the keys have ended. */
const endMs = 5_000

/**
 * Exchanges the identity of a CI's job for a key of one project, runs `work` with it, and ends the key. Another one is
 * asked for before it expires: a build may take longer.
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
      // The cause says what the CI lacks.
      throw withRule(explain(error instanceof NoTokenError ? error.cause : error, job), keys.refused(error))
    }
  })
}

/** Adds the command by which the project would trust the job. */
function withRule(error: unknown, rule: string | null): unknown {
  if (rule === null || !(error instanceof CommandError)) return error
  return new CommandError(
    `${error.message}\nA rule of the project is made in the dashboard, or on the server's machine by\n  ${rule}`,
  )
}

/** The key is read for each request, so that a client keeps working when it is replaced. */
const fetchWith =
  (current: () => Promise<string>): typeof fetch =>
  async (target, init) => {
    const headers = new Headers(init?.headers)
    headers.set('authorization', `Bearer ${await current()}`)
    return fetch(target, { ...init, headers })
  }

/** Exchanges the tokens of the job for keys, of which the former ones live on until they expire or are ended. */
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

    /** Returns the rule that would allow the last token, where the server has no key for it because of its rules. */
    refused(error: unknown): string | null {
      const isRefused = error instanceof ApiError && error.code === 'forbidden' && made.length === 0
      return isRefused ? ruleFor(token, projectId) : null
    },

    /** Ends all keys that were made. One that cannot be ended expires by itself. */
    async end(): Promise<void> {
      await endedOrAborted(exchange.end(), AbortSignal.timeout(endMs))
      const signal = AbortSignal.timeout(endMs)
      await Promise.allSettled(made.splice(0).map((apiKey) => endKey({ address, apiKey, signal })))
    },
  }
}
