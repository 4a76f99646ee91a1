import { randomBytes } from 'node:crypto'
import { sleepUntilAborted } from '../../../platform/abort.ts'
import type { DnsAnswer, DnsType } from '../../../platform/dns/messages.ts'
import type { Resolution, Resolver, Zone, ZoneServer } from '../../../platform/dns/resolver.ts'
import { DnsError } from '../../../platform/dns/transport.ts'
import { registrableDomain } from '../names.ts'
import {
  type AuthorityAnswer,
  addressesIn,
  baseOf,
  type CaaFacts,
  type CertificateAuthority,
  type CheckedDomain,
  type CheckFacts,
  challengeName,
  foundAddresses,
  isWildcard,
  type OwnFacts,
  ownershipName,
  type ProbeFacts,
  type ProbeResult,
  type ZoneFacts,
} from './facts.ts'

/** Requests a text that only this server gives, at a fixed address. Rejects only when the signal aborts. */
export type Probe = (host: string, address: string, signal: AbortSignal) => Promise<ProbeResult>

export interface GatherDependencies {
  readonly resolver: Resolver
  /** True when a request may be sent to an address that a stranger has chosen. */
  readonly allows: (address: string) => boolean
  /** The host of the dashboard, whose addresses are this server's addresses. */
  readonly serverHost: string
  /** Null when names cannot be probed over HTTP. */
  readonly probe: Probe | null
  /** Resolves to null when no certificates are obtained here. */
  readonly authority: (signal: AbortSignal) => Promise<CertificateAuthority | null>
}

const mostProbes = 4

/** Looks up everything that shows whether a domain is right. Rejects only when the signal aborts. */
export async function gatherFacts(
  dependencies: GatherDependencies,
  domain: CheckedDomain,
  signal: AbortSignal,
): Promise<CheckFacts> {
  const { resolver, serverHost } = dependencies
  const resolve = (name: string, type: DnsType) => resolver.resolve(name, type, signal)
  const base = baseOf(domain.name)
  // A new random name, so that no server has an old answer for it.
  const host = isWildcard(domain.name) ? `fairlead-${randomBytes(4).toString('hex')}.${base}` : domain.name
  const registrable = registrableDomain(base)
  const [addresses, registration, zone, own, authority] = await Promise.all([
    Promise.all([resolve(host, 'A'), resolve(host, 'AAAA')]),
    registrable === null ? null : resolve(registrable, 'SOA'),
    zoneWithin(resolver, host, registrable, signal),
    ownAddresses(resolver, serverHost, domain.target, signal),
    dependencies.authority(signal),
  ])
  const [ipv4, ipv6] = addresses
  const found = foundAddresses({ ipv4, ipv6 })
  // A dead name's other records would take as long, and would tell nothing more.
  const isDead = ipv4.outcome === 'failed' && ipv6.outcome === 'failed'
  const ownFacts = await moreOwnAddresses(resolver, { serverHost, target: domain.target, own, found }, signal)
  const [caa, ownership, challenge, besideAlias, probes] = await Promise.all([
    authority === null || authority.identities.length === 0 || isDead ? null : climbForCaa(resolver, base, signal),
    domain.token === null ? null : readOwnership(resolver, domain, zone, signal),
    authority === null ? null : readChallenge(resolver, domain, zone, signal),
    ipv4.names.length > 1 || ipv6.names.length > 1 ? typesBesideAlias(resolver, host, zone, signal) : [],
    tryAddresses(dependencies, host, found, ownFacts, signal),
  ])
  return {
    ...{ domain, host, registrable, own: ownFacts, ipv4, ipv6, registration, zone },
    ...{ besideAlias, probes, authority, caa, ownership, challenge },
  }
}

/** Returns null for the servers of a top-level domain, because no owner of a domain can correct them. */
async function zoneWithin(
  resolver: Resolver,
  host: string,
  registrable: string | null,
  signal: AbortSignal,
): Promise<ZoneFacts | null> {
  const zone = await askZone(resolver, host, signal)
  return zone === null || zone.name.length < (registrable ?? '').length ? null : zone
}

async function ownAddresses(resolver: Resolver, host: string, target: string, signal: AbortSignal): Promise<OwnFacts> {
  const results = await Promise.all(
    [host, target].flatMap((name) => [resolver.resolve(name, 'A', signal), resolver.resolve(name, 'AAAA', signal)]),
  )
  const addresses = [...new Set(results.flatMap(({ records }) => addressesIn(records)))].sort()
  const isResolverSilent = results.every(({ failure }) => failure === 'timeout' || failure === 'unreachable')
  return { host, addresses, isResolverSilent }
}

/** Looks up again when a name has unknown addresses, because servers may return different addresses each time. */
async function moreOwnAddresses(
  resolver: Resolver,
  {
    serverHost,
    target,
    own,
    found,
  }: Pick<GatherDependencies, 'serverHost'> & {
    readonly target: string
    readonly own: OwnFacts
    readonly found: readonly string[]
  },
  signal: AbortSignal,
): Promise<OwnFacts> {
  let facts = own
  for (let round = 0; round < 2; round += 1) {
    if (found.every((address) => facts.addresses.includes(address)) || facts.addresses.length === 0) return facts
    const again = await ownAddresses(resolver, serverHost, target, signal)
    facts = { ...facts, addresses: [...new Set([...facts.addresses, ...again.addresses])].sort() }
  }
  return facts
}

/**
 * Finds the CAA records that apply to a name: its own records, or else the records of the closest parent (RFC 8659,
 * section 3).
 */
async function climbForCaa(resolver: Resolver, name: string, signal: AbortSignal): Promise<CaaFacts> {
  const labels = name.split('.')
  const names = labels.map((_, index) => labels.slice(index).join('.'))
  // Looks up several at once, because names can have more than a hundred labels.
  for (let at = 0; at < names.length; at += 6) {
    const some = names.slice(at, at + 6)
    const results = await Promise.all(some.map((each) => resolver.resolve(each, 'CAA', signal)))
    const deciding = results.findIndex(({ outcome }) => outcome === 'found' || !isEmpty(outcome))
    const result = results[deciding]
    const found = some[deciding]
    if (result === undefined || found === undefined) continue
    return {
      at: found,
      records: result.records,
      failure: result.outcome === 'found' ? null : failureOf(result),
      isElsewhere: result.names.length > 1,
    }
  }
  return { at: name, records: [], failure: null, isElsewhere: false }
}

const isEmpty = (outcome: Resolution['outcome']): boolean => outcome === 'no_data' || outcome === 'no_name'

const failureOf = ({ outcome, failure }: Resolution): string => failure ?? outcome

/**
 * Reads the TXT records that prove ownership of a name. Asks the authoritative servers when the recursive servers have
 * no fitting record, because recursive servers cache missing records.
 */
async function readOwnership(
  resolver: Resolver,
  { name, token }: CheckedDomain,
  zone: ZoneFacts | null,
  signal: AbortSignal,
): Promise<CheckFacts['ownership']> {
  const at = ownershipName(name)
  const result = await resolver.resolve(at, 'TXT', signal)
  const kept = result.records.flatMap((each) => (each.type === 'TXT' ? [each.text] : []))
  if (kept.some((value) => isToken(value, token)))
    return { values: kept, failure: null, isElsewhere: result.names.length > 1 }
  const fresh = await askFresh(resolver, zone, at, 'TXT', signal)
  const values = fresh?.flatMap((each) => (each.type === 'TXT' ? [each.text] : [])) ?? kept
  const isElsewhere = fresh === null && result.names.length > 1
  return { values, isElsewhere, failure: values.length > 0 || isEmpty(result.outcome) ? null : failureOf(result) }
}

/** True when a TXT record has a value. Providers' forms may add quotes and spaces to the pasted text. */
export const isToken = (value: string, token: string | null): boolean =>
  value.replace(/^[\s"']+|[\s"']+$/g, '') === token

async function readChallenge(
  resolver: Resolver,
  { name, challengeTarget }: CheckedDomain,
  zone: ZoneFacts | null,
  signal: AbortSignal,
): Promise<CheckFacts['challenge']> {
  if (challengeTarget === null || !isWildcard(name)) return null
  const at = challengeName(name)
  const result = await resolver.resolve(at, 'TXT', signal)
  const targets = result.names.slice(1)
  if (targets.includes(challengeTarget)) return { targets, failure: null }
  const fresh = await askFresh(resolver, zone, at, 'CNAME', signal)
  const aliases = fresh?.flatMap((each) => (each.type === 'CNAME' ? [each.target] : [])) ?? targets
  const failed = aliases.length === 0 && !isEmpty(result.outcome) && result.outcome !== 'found'
  return { targets: aliases, failure: failed ? failureOf(result) : null }
}

/** Returns the current records of a name from an authoritative server; null when none answers. */
async function askFresh(resolver: Resolver, zone: ZoneFacts | null, name: string, type: DnsType, signal: AbortSignal) {
  const server = zone?.answers.find(({ state }) => state === 'answers')
  if (server === undefined) return null
  try {
    const answer = await resolver.askAuthority(server.address, { name, type }, signal)
    return answer.isAuthoritative ? answer.answers.filter((each) => each.name === name) : null
  } catch {
    signal.throwIfAborted()
    return null
  }
}

/** Probes the addresses of a name over HTTP. Where another server answers, it also probes the server's own host. */
async function tryAddresses(
  { probe, allows }: GatherDependencies,
  host: string,
  found: readonly string[],
  own: OwnFacts,
  signal: AbortSignal,
): Promise<ProbeFacts[]> {
  if (probe === null) return []
  const tried = found.filter((address) => own.addresses.includes(address) || allows(address)).slice(0, mostProbes)
  return Promise.all(
    tried.map(async (address): Promise<ProbeFacts> => {
      const result = await probe(host, address, signal)
      const isStrange = result.outcome !== 'reached' && own.addresses.includes(address)
      return { address, result, ofServer: isStrange ? await probe(own.host, address, signal) : null }
    }),
  )
}

/** Asks every authoritative server of a name for its addresses. Returns null when the servers are unknown. */
async function askZone(resolver: Resolver, name: string, signal: AbortSignal): Promise<ZoneFacts | null> {
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

/** Prefers IPv4: without IPv6 on this machine, a failed IPv6 query would say nothing about the server. */
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

/**
 * Returns the types of other records beside a CNAME record, which must be the only record of its name (RFC 1034,
 * section 3.6.2).
 */
async function typesBesideAlias(
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

/** The time for which this server's addresses are cached. Addresses that are outdated for a while do no harm. */
const keptMs = 5 * 60_000
/** The longest wait for the first answer; after it the records are shown without addresses. */
const waitMs = 2_000

/**
 * Returns a function that resolves to this server's addresses, as its name leads to them. The function caches them for
 * a while, and never rejects.
 */
export function createOwnAddresses(
  resolver: Pick<Resolver, 'resolve'>,
  host: string,
): () => Promise<readonly string[]> {
  let cached: readonly string[] = []
  let askedAt = Number.NEGATIVE_INFINITY
  let first: Promise<void> | undefined

  const refresh = async (): Promise<void> => {
    const signal = AbortSignal.timeout(30_000)
    const found = await Promise.all((['A', 'AAAA'] as const).map((type) => resolver.resolve(host, type, signal)))
    const addresses = found.flatMap(({ records }) => addressesIn(records))
    if (addresses.length > 0) cached = [...new Set(addresses)].sort()
  }

  return async () => {
    if (performance.now() - askedAt > keptMs) {
      askedAt = performance.now()
      const asked = refresh().catch(() => undefined)
      first ??= asked
    }
    if (cached.length === 0 && first !== undefined) await soon(first)
    return cached
  }
}

async function soon(work: Promise<void>): Promise<void> {
  const done = new AbortController()
  await Promise.race([work, sleepUntilAborted(waitMs, done.signal)])
  done.abort()
}
