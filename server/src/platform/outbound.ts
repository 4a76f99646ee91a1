import { type LookupAddress, type LookupOptions, lookup as resolveHost } from 'node:dns'
import { BlockList, isIP } from 'node:net'

/** Decides which addresses the server may connect to on a tenant's behalf. */
export interface Outbound {
  readonly mode: 'public' | 'any'
  /** Whether an IP address may be connected to. */
  allows(address: string): boolean
  /**
   * Resolves a host name and checks every answer, for use as a connection's own lookup: what was checked is what is
   * connected to. Rejects with `OutboundError`. IP literals are checked and given back as they are.
   */
  resolve(host: string): Promise<LookupAddress[]>
  /** `resolve` in the form of `dns.lookup`, for connectors. */
  lookup(host: string, options: LookupOptions, done: LookupCallback): void
}

type LookupCallback = (error: Error | null, address: string | LookupAddress[], family?: number) => void

/** The address is not one that tenants may reach through this server. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'
  readonly code = 'address_refused'
}

// IANA's special-purpose registries, IPv4 and IPv6, and the prefixes that carry an IPv4 address inside an IPv6 one.
// The IPv4-mapped ones (::ffff:0:0/96) are not here: a block list compares those with its IPv4 entries by itself.
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
  '::/128',
  '::1/128',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '100::/64',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
  '5f00::/16',
  'fc00::/7',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
]

/**
 * @param options.mode `any` checks nothing; `public` refuses private, loopback, link-local and metadata addresses.
 * @param options.allow addresses and networks (CIDR) that are allowed all the same.
 */
export function createOutbound(options: { mode: 'public' | 'any'; allow: readonly string[] }): Outbound {
  const refused = blockList(special)
  const allowed = blockList(options.allow)

  const allows = (address: string): boolean => {
    if (options.mode === 'any') return true
    const family = familyOf(address)
    return family !== undefined && (allowed.check(address, family) || !refused.check(address, family))
  }

  const resolve = async (host: string): Promise<LookupAddress[]> => {
    const literal = host.replace(/^\[|\]$/g, '')
    const family = isIP(literal)
    const addresses = family === 0 ? await lookupAll(host) : [{ address: literal, family }]
    const bad = addresses.find(({ address }) => !allows(address))
    if (bad !== undefined) {
      throw new OutboundError(`${host} leads to ${bad.address}, which is not a public address.`)
    }
    return addresses
  }

  return {
    mode: options.mode,
    allows,
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

/** A list of addresses and networks; throws on what is neither. */
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

function familyOf(address: string): 'ipv4' | 'ipv6' | undefined {
  const family = isIP(address)
  return family === 0 ? undefined : family === 4 ? 'ipv4' : 'ipv6'
}

function lookupAll(host: string): Promise<LookupAddress[]> {
  return new Promise((done, fail) => {
    resolveHost(host, { all: true }, (error, addresses) => (error === null ? done(addresses) : fail(error)))
  })
}
