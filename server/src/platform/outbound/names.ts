import type { LookupAddress } from 'node:dns'
import { lookup, Resolver } from 'node:dns/promises'

/** Resolves a host name to all of its addresses. Rejects when it has none. */
export type ResolveName = (host: string) => Promise<readonly LookupAddress[]>

/** Resolves as other programs of this machine do: the hosts file, then DNS. Occupies a thread of the process while it waits. */
export const resolveAsSystem: ResolveName = (host) => lookup(host, { all: true })

/**
 * Resolves by DNS alone and without a thread, so that a name whose server never answers does not delay others.
 *
 * @param servers addresses (with ports) of name servers; the system's by default
 */
export function createDnsResolver(servers?: readonly string[]): ResolveName {
  const resolver = new Resolver({ timeout: 2_000, tries: 3 })
  if (servers !== undefined) resolver.setServers(servers)
  return async (host) => {
    if (isLocalhost(host)) return loopback
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    const addresses = answers.flatMap((answer, at) =>
      answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family: at === 0 ? 4 : 6 })) : [],
    )
    const [failed] = answers.filter((answer) => answer.status === 'rejected')
    if (addresses.length === 0) throw failed?.reason ?? new Error(`${host} has no address`)
    return addresses
  }
}

const loopback: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
]

/** These names are never looked up in DNS (RFC 6761, 6.3). */
function isLocalhost(host: string): boolean {
  return /(^|\.)localhost\.?$/i.test(host)
}
