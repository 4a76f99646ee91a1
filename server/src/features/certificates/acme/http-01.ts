import { sleepUntilAborted } from '../../../platform/abort.ts'
import type { Resolver } from '../../../platform/dns/resolver.ts'
import { request } from '../../../platform/http.ts'
import type { Logger } from '../../../platform/logger.ts'
import type { ChallengeAnswer, ChallengeKind } from './acme.ts'
import { AttemptError } from './errors.ts'

/** Resolves with the text that this server's edge answers for a path of a host; null when it does not answer. */
type AskEdge = (host: string, path: string, signal: AbortSignal) => Promise<string | null>

export interface Http01Dependencies {
  /** Makes every edge of this server answer with a text at a path; null removes the answer. */
  readonly answerAt: (path: string, body: string | null) => Promise<void>
  readonly askEdge: AskEdge
  readonly resolver: Pick<Resolver, 'resolve'>
  readonly logger: Pick<Logger, 'warn'>
}

/** The folder of the answers (RFC 8555, section 8.3). */
export const challengeFolder = '/.well-known/acme-challenge/'

const lookEveryMs = 250
const visibleWithinMs = 10_000

export function createHttp01({ answerAt, askEdge, resolver, logger }: Http01Dependencies): ChallengeKind {
  const pathOf = ({ token }: ChallengeAnswer) => `${challengeFolder}${token}`
  return {
    type: 'http-01',
    async prepare(answer, signal) {
      await assertInDns(resolver, answer.name, signal)
      await answerAt(pathOf(answer), answer.value)
      await untilVisible(askEdge, answer, pathOf(answer), signal)
    },
    async clean(answer) {
      await answerAt(pathOf(answer), null).catch((error: unknown) => {
        logger.warn({ err: error }, 'an answer to a challenge could not be removed from the gateway yet')
      })
    },
  }
}

/**
 * Rejects when the name has no address, because it cannot be proved. An error of the resolver proves nothing: the
 * authority uses another resolver.
 */
async function assertInDns(resolver: Pick<Resolver, 'resolve'>, name: string, signal: AbortSignal): Promise<void> {
  const found = await Promise.all((['A', 'AAAA'] as const).map((type) => resolver.resolve(name, type, signal)))
  if (found.some(({ outcome }) => outcome === 'found' || outcome === 'failed')) return
  throw new AttemptError('dns_missing', `${name} has no A or AAAA record in DNS, so nobody reaches this server by it.`)
}

async function untilVisible(
  askEdge: AskEdge,
  { name, value }: ChallengeAnswer,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const end = performance.now() + visibleWithinMs
  let seen: string | null = null
  while (performance.now() < end) {
    seen = await askEdge(name, path, signal)
    if (seen === value) return
    await sleepUntilAborted(lookEveryMs, signal)
    signal.throwIfAborted()
  }
  throw new AttemptError(
    'challenge_not_visible',
    seen === null
      ? "The server's own port for HTTP does not answer, so the certificate authority would get no answer either."
      : "Another program answers at the server's own port for HTTP, so the certificate authority would get its answer.",
  )
}

const timeoutMs = 3_000
const mostBytes = 10_000

/** Asks the edge of this machine at its HTTP port, regardless of DNS: routers seldom send a request back inside. */
export function createAskEdge(port: number): AskEdge {
  return (host, path, signal) =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted()
      const none = () => (signal.aborted ? reject(signal.reason) : resolve(null))
      const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
      const asked = request({ host: '127.0.0.1', port, path, headers: { host }, signal: limited, agent: false })
      asked.on('error', none)
      asked.on('response', (response) => {
        let text = ''
        response.setEncoding('latin1')
        response.on('data', (chunk: string) => {
          text = (text + chunk).slice(0, mostBytes)
        })
        response.on('end', () => resolve(text))
        response.on('error', none)
        response.on('close', none)
      })
      asked.end()
    })
}
