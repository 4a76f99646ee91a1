import type { Zone, ZoneServer } from '../../platform/dns/delegation.ts'
import { DnsError } from '../../platform/dns/exchange.ts'
import type { DnsAnswer, DnsType } from '../../platform/dns/message.ts'
import type { Resolver } from '../../platform/dns/resolver.ts'
import { type AuthorityAnswer, addressesIn, type ZoneFacts } from './facts.ts'

/** Asks every authoritative server of a name for its addresses. Returns null when nobody knows the servers. */
export async function askZone(resolver: Resolver, name: string, signal: AbortSignal): Promise<ZoneFacts | null> {
  const zone = await resolver.zoneOf(name, signal)
  if (zone === null) return null
  const asked = zone.servers.flatMap((server) => addressToAsk(server))
  return {
    name: zone.name,
    answers: await Promise.all(asked.map((server) => askServer(resolver, server, { name, zone }, signal))),
    unresolved: zone.servers.filter(({ isMissing }) => isMissing).map((each) => each.name),
    private: zone.servers.filter(({ isPrivate }) => isPrivate).map((each) => each.name),
  }
}

/** IPv4 first: this machine may have no IPv6, and then nothing can be said about the server. */
function addressToAsk({ name, addresses }: ZoneServer): { readonly name: string; readonly address: string }[] {
  const address = addresses.find((each) => !each.includes(':')) ?? addresses[0]
  return address === undefined ? [] : [{ name, address }]
}

interface Asked {
  readonly name: string
  readonly zone: Zone
}

async function askServer(
  resolver: Resolver,
  { name: server, address }: { readonly name: string; readonly address: string },
  asked: Asked,
  signal: AbortSignal,
): Promise<AuthorityAnswer> {
  const nothing = { server, address, rcode: null, alias: null, addresses: [] }
  try {
    const types = ['A', 'AAAA'] as const
    const [ipv4, ipv6] = await Promise.all(
      types.map((type) => resolver.askAuthority(address, { name: asked.name, type }, signal)),
    )
    if (ipv4 === undefined || ipv6 === undefined) return { ...nothing, state: 'silent' }
    const records = [...ipv4.answers, ...ipv6.answers].filter((each) => each.name === asked.name)
    const alias = records.find((each) => each.type === 'CNAME')
    return {
      ...{ server, address, state: stateOf(ipv4, asked), rcode: ipv4.rcode },
      alias: alias?.type === 'CNAME' ? alias.target : null,
      addresses: addressesIn(records),
    }
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof DnsError)) throw error
    const isUnknown = error.code === 'unreachable' && address.includes(':')
    return { ...nothing, state: isUnknown ? 'unknown' : 'silent' }
  }
}

function stateOf({ rcode, isAuthoritative, authorities }: DnsAnswer, { name, zone }: Asked): AuthorityAnswer['state'] {
  if (rcode === 'SERVFAIL') return 'fails'
  if (rcode !== 'NOERROR' && rcode !== 'NXDOMAIN') return 'refuses'
  if (isAuthoritative) return 'answers'
  const leadsDown = authorities.some(
    (each) =>
      each.type === 'NS' &&
      each.name.length > zone.name.length &&
      (name === each.name || name.endsWith(`.${each.name}`)),
  )
  return leadsDown ? 'unknown' : 'refuses'
}

/** Returns the types of the records beside a CNAME record, where there must be none (RFC 1034, section 3.6.2). */
export async function typesBesideAlias(
  resolver: Resolver,
  name: string,
  zone: ZoneFacts | null,
  signal: AbortSignal,
): Promise<string[]> {
  const server = zone?.answers.find(({ state }) => state === 'answers')
  if (server === undefined) return []
  const types: readonly DnsType[] = ['SOA', 'NS', 'MX', 'TXT', 'A']
  const found = await Promise.all(
    types.map(async (type) => {
      try {
        const { answers } = await resolver.askAuthority(server.address, { name, type }, signal)
        return answers.some((each) => each.name === name && each.type === type) ? [type] : []
      } catch {
        signal.throwIfAborted()
        return []
      }
    }),
  )
  return found.flat()
}
