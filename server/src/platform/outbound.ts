import type { LookupAddress, LookupOptions } from 'node:dns'
import { lookup, Resolver } from 'node:dns/promises'
import { BlockList, isIP } from 'node:net'

export interface Outbound {
  readonly mode: 'public' | 'any'
  allows(address: string): boolean
  allowsPort(port: number): boolean
  /**
   * Checks every address of a host name, as the lookup of a connection, so that it connects to a checked address.
   * Rejects with `OutboundError`. IP literals are returned as they are.
   */
  resolve(host: string): Promise<LookupAddress[]>
  /** `resolve` in the form of `dns.lookup`, for connectors. */
  lookup(host: string, options: LookupOptions, done: LookupCallback): void
}

type LookupCallback = (error: Error | null, address: string | LookupAddress[], family?: number) => void

/** Thrown for an address that tenants may not reach through this server. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'
  readonly code = 'address_refused'
}

// The entries of IANA's special-purpose registries for IPv4 and IPv6, the space outside IPv6's global unicast range,
// and the prefixes that carry an IPv4 address inside an IPv6 one (IPv4-compatible, translated, NAT64, 6to4).
// IPv4-mapped addresses (::ffff:0:0/96) are not listed: a `BlockList` compares them with its IPv4 entries.
const special = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '::/96',
  '::ffff:0:0:0/96',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '100::/64',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
  '4000::/2',
  '8000::/1',
]

let specialList: BlockList | undefined

function isSpecial(address: string, family: 'ipv4' | 'ipv6'): boolean {
  // Making the list takes longer than most parts of a start.
  specialList ??= blockList(special)
  return specialList.check(address, family)
}

export const specialIpv4: readonly string[] = special.filter((entry) => !entry.includes(':'))

export interface OutboundOptions {
  /** `any` checks nothing; `public` refuses private, loopback, link-local and metadata addresses. */
  readonly mode: 'public' | 'any'
  /** Addresses and networks (CIDR) that are allowed although they are not public. */
  readonly allow: readonly string[]
  /** Ports below 1024 that are allowed in addition to 80 and 443. */
  readonly ports: readonly number[]
  /** By default the mode `public` resolves only by DNS, so that tenants' names occupy no threads. */
  readonly resolveName?: ResolveName
}

export function createOutbound(options: OutboundOptions): Outbound {
  const resolveName = options.resolveName ?? (options.mode === 'any' ? resolveAsSystem : createDnsResolver())
  const allowed = blockList(options.allow)
  const ports = new Set(options.ports)

  const allows = (address: string): boolean => {
    if (options.mode === 'any') return true
    const family = familyOf(address)
    // Only link-local addresses have a zone (fe80::1%eth0), and they are never public.
    if (address.includes('%')) return false
    return family !== undefined && (allowed.check(address, family) || !isSpecial(address, family))
  }

  const resolve = async (host: string): Promise<LookupAddress[]> => {
    const literal = host.replace(/^\[|\]$/g, '')
    const family = isIP(literal)
    const addresses = family === 0 ? await resolveName(host) : [{ address: literal, family }]
    const bad = addresses.find(({ address }) => !allows(address))
    // Without the address: a tenant must not learn the operator's internal names and addresses.
    if (bad !== undefined) throw new OutboundError(`${host} leads to an address that is not public.`)
    return [...addresses]
  }

  return {
    mode: options.mode,
    allows,
    allowsPort: (port) => options.mode === 'any' || port === 80 || port === 443 || port > 1023 || ports.has(port),
    resolve,
    lookup(host, { all }, done) {
      resolve(host).then(
        (addresses) => {
          const [first] = addresses
          if (all === true) done(null, addresses)
          else done(null, first?.address ?? '', first?.family)
        },
        (error: Error) => done(error, ''),
      )
    },
  }
}

/** Creates a list of addresses and networks. Throws on an entry that is neither. */
export function blockList(entries: readonly string[]): BlockList {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', prefix, ...more] = entry.split('/')
    const family = familyOf(address)
    const bits = prefix === undefined || !/^\d{1,3}$/.test(prefix) ? undefined : Number(prefix)
    const fits = bits === undefined ? prefix === undefined : bits <= (family === 'ipv4' ? 32 : 128)
    if (family === undefined || !fits || more.length > 0) {
      throw new Error(`${entry} is not an IP address or a network such as 10.0.0.0/8.`)
    }
    if (bits === undefined) list.addAddress(address, family)
    else list.addSubnet(address, bits, family)
  }
  return list
}

/**
 * Returns a function that is true for the addresses in a list of addresses and networks. Throws as `blockList` does.
 */
export function addressesIn(entries: readonly string[]): (address: string) => boolean {
  const list = blockList(entries)
  return (address) => list.check(address, address.includes(':') ? 'ipv6' : 'ipv4')
}

function familyOf(address: string): 'ipv4' | 'ipv6' | undefined {
  const family = isIP(address)
  return family === 0 ? undefined : family === 4 ? 'ipv4' : 'ipv6'
}

/** Resolves a host name to all of its addresses. Rejects when it has none. */
type ResolveName = (host: string) => Promise<readonly LookupAddress[]>

/**
 * Resolves as other programs of this machine do: the hosts file, then DNS. Occupies a thread of the process while it
 * waits.
 */
const resolveAsSystem: ResolveName = (host) => lookup(host, { all: true })

/**
 * Resolves only by DNS and without a thread, so that a name server that never answers does not delay other lookups.
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
