import { Resolver as SystemResolver } from 'node:dns'
import { isIP } from 'node:net'
import type { DnsAnswer, DnsQuestion, DnsRecord, DnsType } from './messages.ts'
import { DnsError, type DnsServer, query } from './transport.ts'

/** Asks the machine's recursive servers, and the authoritative servers of a name. */
export interface Resolver {
  /**
   * Resolves a name with the recursive servers: asks the next server when a server fails or does not answer. Follows
   * CNAME records. Rejects only when the signal aborts.
   */
  resolve(name: string, type: DnsType, signal: AbortSignal): Promise<Resolution>
  /**
   * Returns the zone of a name and its authoritative servers. When these servers do not answer, the parent zone names
   * them. Returns null when the parent zones do not answer either. Rejects only when the signal aborts.
   */
  zoneOf(name: string, signal: AbortSignal): Promise<Zone | null>
  /**
   * Asks an authoritative server for its own data. Rejects with `DnsError` when the server does not answer, or when
   * its address is not allowed; then nothing is sent.
   */
  readonly askAuthority: AskAuthority
}

export interface ResolverOptions {
  /** The recursive servers; null for the system's servers. */
  readonly servers: readonly DnsServer[] | null
  /** True when messages may be sent to an authoritative server. Tenants choose these servers. */
  readonly allows: (address: string) => boolean
  readonly authorityPort?: number
}

export function createResolver({ servers, allows, authorityPort = 53 }: ResolverOptions): Resolver {
  let lastAnswered = ''

  const ask = async (question: DnsQuestion, signal: AbortSignal): Promise<DnsAnswer> => {
    const all = (servers ?? systemServers()).toSorted(
      (one, other) => Number(keyOf(other) === lastAnswered) - Number(keyOf(one) === lastAnswered),
    )
    let failed: DnsAnswer | undefined
    let silent = new DnsError('unreachable', 'No DNS server is configured.')
    for (const server of all) {
      try {
        const answer = await query(server, question, signal)
        if (answer.rcode === 'NOERROR' || answer.rcode === 'NXDOMAIN') {
          lastAnswered = keyOf(server)
          return answer
        }
        failed = answer
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof DnsError)) throw error
        silent = error
      }
    }
    if (failed === undefined) throw silent
    return failed
  }

  const askAuthority: AskAuthority = async (address, { name, type }, signal) => {
    if (!allows(address)) throw new DnsError('unreachable', `${address} is not a public address.`)
    return query({ address, port: authorityPort }, { name, type, recursion: false }, signal)
  }

  return {
    resolve: (name, type, signal) => resolveName(ask, name, type, signal),
    zoneOf: (name, signal) => findZone({ ask, askAuthority, allows }, name.toLowerCase(), signal),
    askAuthority,
  }
}

const keyOf = ({ address, port }: DnsServer): string => `${address} ${port}`

/** Reads `/etc/resolv.conf` at each call, because networks change. */
function systemServers(): DnsServer[] {
  return new SystemResolver().getServers().flatMap((text) => {
    const [, bracketed, plain, port = '53'] = /^(?:\[([^\]]+)\]|(\d+(?:\.\d+){3}))(?::(\d+))?$/.exec(text) ?? []
    const address = bracketed ?? plain ?? text
    return isIP(address) === 0 ? [] : [{ address, port: Number(port) }]
  })
}

/** Rejects with `DnsError` when no recursive server answers. */
type AskRecursively = (question: DnsQuestion, signal: AbortSignal) => Promise<DnsAnswer>

/** The result for a name and a type, after CNAME records were followed. */
export interface Resolution {
  /**
   * `found`: there are records. `no_data`: the last name exists, without records of the type. `no_name`: it does not
   * exist. `failed`: see `failure`.
   */
  readonly outcome: 'found' | 'no_data' | 'no_name' | 'cname_loop' | 'cname_too_long' | 'failed'
  /** The name that was asked for, then the targets of CNAME records. */
  readonly names: readonly string[]
  readonly records: readonly DnsRecord[]
  /** The seconds for which the recursive server may still cache its data about the first name. */
  readonly ttl: number
  /**
   * The reason of `failed`: `timeout`, `unreachable` or `malformed` when no server gave an answer; `dnssec` when
   * records exist, but their signatures are invalid; otherwise the rcode, such as `SERVFAIL`.
   */
  readonly failure: string | null
}

/** Resolvers of certificate authorities follow at least this many. */
const mostNames = 10

async function resolveName(ask: AskRecursively, name: string, type: DnsType, signal: AbortSignal): Promise<Resolution> {
  const names = [name.toLowerCase()]
  let first: number | undefined
  const result = (outcome: Resolution['outcome'], more: Partial<Resolution> = {}): Resolution => ({
    ...{ records: [], failure: null, ...more, outcome, names },
    ttl: first ?? more.ttl ?? 0,
  })
  for (;;) {
    const asked = await askSafely(ask, { name: last(names), type, recursion: true }, signal)
    if (typeof asked === 'string') return result('failed', { failure: asked })
    const before = names.length
    const end = followAliases(asked.answers, names, type)
    first ??= end.ttl
    if (end.trouble !== null) return result(end.trouble)
    if (!['NOERROR', 'NXDOMAIN'].includes(asked.rcode)) {
      const failure = await explainFailure(ask, { name: last(names), type }, asked.rcode, signal)
      if (typeof failure === 'string') return result('failed', { failure })
      names.push(...failure.names)
      return result(failure.outcome, { ttl: failure.ttl })
    }
    const records = asked.answers.filter((each) => each.name === last(names) && each.type === type)
    if (records.length > 0) return result('found', { records, ttl: Math.min(...records.map((each) => each.ttl)) })
    if (asked.rcode === 'NXDOMAIN') return result('no_name', { ttl: negativeTtl(asked) })
    // After a new alias without an SOA record, the server may know more when asked for the alias's target.
    if (names.length === before || hasSoa(asked)) return result('no_data', { ttl: negativeTtl(asked) })
  }
}

const last = (names: readonly string[]): string => names[names.length - 1] ?? ''

const hasSoa = ({ authorities }: DnsAnswer): boolean => authorities.some(({ type }) => type === 'SOA')

function negativeTtl({ authorities }: DnsAnswer): number {
  const soa = authorities.find((each) => each.type === 'SOA')
  return soa?.type === 'SOA' ? soa.negativeTtl : 0
}

type Trouble = 'cname_loop' | 'cname_too_long'

/** Follows CNAME records from the last name and appends their targets to `names`. `ttl` is the first record's TTL. */
function followAliases(
  answers: readonly DnsRecord[],
  names: string[],
  type: DnsType,
): { readonly trouble: Trouble | null; readonly ttl: number | undefined } {
  let ttl: number | undefined
  while (type !== 'CNAME') {
    const alias = answers.find((each) => each.type === 'CNAME' && each.name === last(names))
    if (alias?.type !== 'CNAME') break
    ttl ??= alias.ttl
    const isLoop = names.includes(alias.target)
    names.push(alias.target)
    if (isLoop) return { trouble: 'cname_loop', ttl }
    if (names.length > mostNames) return { trouble: 'cname_too_long', ttl }
  }
  return { trouble: null, ttl }
}

async function askSafely(ask: AskRecursively, question: DnsQuestion, signal: AbortSignal): Promise<DnsAnswer | string> {
  try {
    return await ask(question, signal)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof DnsError) return error.code
    throw error
  }
}

/**
 * Finds why a recursive server failed. The signatures are invalid if it answers with checking disabled (RFC 4035,
 * section 3.2.2). Otherwise the CNAME chain may have no end: many servers answer this with SERVFAIL.
 */
async function explainFailure(
  ask: AskRecursively,
  { name, type }: Pick<DnsQuestion, 'name' | 'type'>,
  rcode: string,
  signal: AbortSignal,
): Promise<string | { readonly outcome: Trouble; readonly names: readonly string[]; readonly ttl: number }> {
  if (rcode !== 'SERVFAIL') return rcode
  const unchecked = await askSafely(ask, { name, type, recursion: true, checkingDisabled: true }, signal)
  if (typeof unchecked !== 'string' && ['NOERROR', 'NXDOMAIN'].includes(unchecked.rcode)) return 'dnssec'
  const names = [name]
  let first: number | undefined
  for (;;) {
    const alias = await askSafely(ask, { name: last(names), type: 'CNAME', recursion: true }, signal)
    if (typeof alias === 'string') return rcode
    const { trouble, ttl } = followAliases(alias.answers.slice(0, 1), names, 'A')
    first ??= ttl
    if (trouble !== null) return { outcome: trouble, names: names.slice(1), ttl: first ?? 0 }
    if (ttl === undefined) return rcode
  }
}

type AskAuthority = (
  address: string,
  question: Pick<DnsQuestion, 'name' | 'type'>,
  signal: AbortSignal,
) => Promise<DnsAnswer>

export interface Zone {
  readonly name: string
  readonly servers: readonly ZoneServer[]
}

export interface ZoneServer {
  readonly name: string
  /** The addresses that may be asked. */
  readonly addresses: readonly string[]
  /** True when the server has addresses, but none may be asked, because none is public. */
  readonly isPrivate: boolean
  /** True when the server has no address at all; false also when this is unknown. */
  readonly isMissing: boolean
}

interface Access {
  readonly ask: AskRecursively
  readonly askAuthority: AskAuthority
  readonly allows: (address: string) => boolean
}

/** Zones are searched among this many last labels of a name. Longer names have no deeper zones in practice. */
const mostLabels = 8
const mostServers = 8
const mostAddresses = 3

/**
 * Finds the zone of a name. The recursive servers know the zone, unless its authoritative servers fail. Then the
 * servers of the parent zone name them.
 */
async function findZone(access: Access, name: string, signal: AbortSignal): Promise<Zone | null> {
  const labels = name.split('.').slice(-mostLabels)
  // From the last label to the whole name.
  const candidates = labels.map((_, index) => labels.slice(-1 - index).join('.'))
  const known = await Promise.all(candidates.map((candidate) => serverNames(access.ask, candidate, signal)))
  const deepest = known.findLastIndex((each) => each !== null && each.length > 0)
  const zoneName = candidates[deepest]
  if (zoneName === undefined) return null
  const zone = await withAddresses(access, zoneName, known[deepest] ?? [], [], signal)
  const below = candidates.slice(deepest + 1)
  return known.slice(deepest + 1).includes(null) ? descend(access, zone, below, signal) : zone
}

/** Returns the names of a zone's servers; none when the name is not a zone, null when the recursive servers fail. */
async function serverNames(ask: AskRecursively, zone: string, signal: AbortSignal): Promise<string[] | null> {
  try {
    // Invalid signatures must not hide the servers that sent them.
    const question = { name: zone, type: 'NS', recursion: true, checkingDisabled: true } as const
    const { rcode, answers } = await ask(question, signal)
    return rcode === 'NOERROR' || rcode === 'NXDOMAIN' ? targetsAt(zone, answers) : null
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof DnsError) return null
    throw error
  }
}

const targetsAt = (zone: string, records: readonly DnsRecord[]): string[] =>
  records.flatMap((each) => (each.type === 'NS' && each.name === zone ? [each.target] : []))

/** Asks each zone's servers for the zone below, down to the last name. */
async function descend(access: Access, from: Zone, names: readonly string[], signal: AbortSignal): Promise<Zone> {
  let zone = from
  for (const name of names) {
    const answer = await firstAnswer(access, zone, name, signal)
    if (answer === null) return zone
    const records = [...answer.answers, ...answer.authorities]
    const servers = targetsAt(name, records)
    if (servers.length > 0) zone = await withAddresses(access, name, servers, answer.additionals, signal)
  }
  return zone
}

/** Asks several servers at once, because waiting for a silent server takes seconds. */
async function firstAnswer(
  { askAuthority }: Access,
  { servers }: Zone,
  name: string,
  signal: AbortSignal,
): Promise<DnsAnswer | null> {
  const addresses = servers.flatMap((server) => server.addresses.slice(0, 1)).slice(0, 3)
  const asked = addresses.map(async (address) => {
    const answer = await askAuthority(address, { name, type: 'NS' }, signal)
    if (answer.rcode !== 'NOERROR') throw new DnsError('malformed', `${address} answered ${answer.rcode}.`)
    return answer
  })
  try {
    return await Promise.any(asked)
  } catch {
    signal.throwIfAborted()
    return null
  }
}

/** @param glue addresses from the parent zone (RFC 9471), for servers whose names are in the zone itself */
async function withAddresses(
  { ask, allows }: Access,
  name: string,
  serverNames: readonly string[],
  glue: readonly DnsRecord[],
  signal: AbortSignal,
): Promise<Zone> {
  const servers = [...new Set(serverNames)].sort().slice(0, mostServers)
  const addressesOf = async (server: string): Promise<ZoneServer> => {
    const given = addressesIn(glue.filter((each) => each.name === server))
    const types = ['A', 'AAAA'] as const
    const resolved =
      given.length > 0 ? [] : await Promise.all(types.map((type) => resolveName(ask, server, type, signal)))
    const all = [...given, ...resolved.flatMap(({ records }) => addressesIn(records))]
    const addresses = all.filter(allows).slice(0, mostAddresses)
    const isKnown = resolved.every(({ outcome }) => outcome === 'no_name' || outcome === 'no_data')
    return {
      name: server,
      addresses,
      isPrivate: addresses.length === 0 && all.length > 0,
      isMissing: all.length === 0 && isKnown,
    }
  }
  return { name, servers: await Promise.all(servers.map(addressesOf)) }
}

const addressesIn = (records: readonly DnsRecord[]): string[] =>
  records.flatMap((each) => (each.type === 'A' || each.type === 'AAAA' ? [each.address] : []))
