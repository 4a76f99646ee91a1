import { sleepUntilAborted } from '../platform/abort.ts'
import type { Resolver } from '../platform/dns/resolver.ts'
import { addressesIn } from './checks/facts.ts'

/** The addresses of this server may change; a page that shows older ones for a while does no harm. */
const keptMs = 5 * 60_000
/** The longest wait for the first answer: after it the records are shown without addresses. */
const waitMs = 2_000

/**
 * Returns a function that tells the addresses of this server, as its own name leads to them. It remembers them for a while, and
 * never rejects.
 */
export function createOwnAddresses(
  resolver: Pick<Resolver, 'resolve'>,
  host: string,
): () => Promise<readonly string[]> {
  let known: readonly string[] = []
  let askedAt = Number.NEGATIVE_INFINITY
  let first: Promise<void> | undefined

  const refresh = async (): Promise<void> => {
    const signal = AbortSignal.timeout(30_000)
    const found = await Promise.all((['A', 'AAAA'] as const).map((type) => resolver.resolve(host, type, signal)))
    const addresses = found.flatMap(({ records }) => addressesIn(records))
    if (addresses.length > 0) known = [...new Set(addresses)].sort()
  }

  return async () => {
    if (performance.now() - askedAt > keptMs) {
      askedAt = performance.now()
      const asked = refresh().catch(() => undefined)
      first ??= asked
    }
    if (known.length === 0 && first !== undefined) await soon(first)
    return known
  }
}

async function soon(work: Promise<void>): Promise<void> {
  const done = new AbortController()
  await Promise.race([work, sleepUntilAborted(waitMs, done.signal)])
  done.abort()
}
