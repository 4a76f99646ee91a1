import { Resolver as SystemResolver } from 'node:dns'
import { isIP } from 'node:net'
import type { DnsAnswer, DnsQuestion, DnsRecord, DnsType } from './messages.ts'
import { DnsError, type DnsServer, query } from './transport.ts'

/** Asks the Domain Name System: the recursive servers of this machine, and the authoritative servers of a name. */
export interface Resolver {
  /**
   * Resolves a name by the recursive servers: each is asked when the one before does not answer or fails. CNAME records are
   * followed. Rejects only when the signal aborts.
   */
  resolve(name: string, type: DnsType, signal: AbortSignal): Promise<Resolution>
  /**
   * Returns the zone that a name is in and its authoritative servers, as its parent names them where they do not answer
   * themselves; null when the parents do not answer either. Rejects only when the signal aborts.
   */
  zoneOf(name: string, signal: AbortSignal): Promise<Zone | null>
  /**
   * Asks an authoritative server for what it knows itself. Rejects with `DnsError` when it does not answer, and without a
   * message to it when its address is not allowed.
   */
  readonly askAuthority: AskAuthority
}

export interface ResolverOptions {
  /** The recursive servers; null for those of the system. */
  readonly servers: readonly DnsServer[] | null
  /** Tells if messages may be sent to an authoritative server: tenants choose these. */
  readonly allows: (address: string) => boolean
  /** The port of authoritative servers. */
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

/** The servers of `/etc/resolv.conf`, which are read anew: networks change. */
function systemServers(): DnsServer[] {
  return new SystemResolver().getServers().flatMap((text) => {
    const [, bracketed, plain, port = '53'] = /^(?:\[([^\]]+)\]|(\d+(?:\.\d+){3}))(?::(\d+))?$/.exec(text) ?? []
    const address = bracketed ?? plain ?? text
    return isIP(address) === 0 ? [] : [{ address, port: Number(port) }]
  })
}

/** Asks the recursive servers one question. Rejects with `DnsError` when none of them answers. */
type AskRecursively = (question: DnsQuestion, signal: AbortSignal) => Promise<DnsAnswer>

/** The result for a name and a type, with the CNAME records followed. */
export interface Resolution {
  /**
   * `found`: there are records. `no_data`: the last name exists, without records of the type. `no_name`: the last name does
   * not exist. `failed`: see `failure`.
   */
  readonly outcome: 'found' | 'no_data' | 'no_name' | 'cname_loop' | 'cname_too_long' | 'failed'
  /** The name that was asked for, then the targets of CNAME records, in order. */
  readonly names: readonly string[]
  /** The records of the last name and of the type. */
  readonly records: readonly DnsRecord[]
  /** The seconds for which the recursive server may still keep what it has about the first name. */
  readonly ttl: number
  /**
   * The reason of `failed`: `timeout`, `unreachable` or `malformed` when no server gave an answer; `dnssec` when there are
   * records, but their signatures are not right; otherwise the rcode, such as `SERVFAIL`.
   */
  readonly failure: string | null
}

/** As many as the resolvers of certificate authorities follow at least. */
const mostNames = 10

/** Resolves a name. Rejects only when the signal aborts. */
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
    // The server has followed an alias no further: it may give the rest when asked.
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

/** Adds the targets of the CNAME records in an answer that begin at the last name. Returns the seconds of the first one. */
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

/** Returns the answer, or why there is none. */
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
 * Finds why a recursive server failed: signatures that are not right (it answers when it is told not to check them; RFC
 * 4035, section 3.2.2), or CNAME records without an end, for which many servers give no other answer.
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

/** Asks an authoritative server. Rejects with `DnsError`. */
type AskAuthority = (
  address: string,
  question: Pick<DnsQuestion, 'name' | 'type'>,
  signal: AbortSignal,
) => Promise<DnsAnswer>

/** A part of the name space with servers of its own. */
export interface Zone {
  /** Such as `example.com`. */
  readonly name: string
  readonly servers: readonly ZoneServer[]
}

export interface ZoneServer {
  readonly name: string
  /** Those that may be asked. */
  readonly addresses: readonly string[]
  /** True when it has addresses that may not be asked, because they are not public. */
  readonly isPrivate: boolean
  /** True when it has no address at all; false also when that cannot be told. */
  readonly isMissing: boolean
}

interface Access {
  readonly ask: AskRecursively
  readonly askAuthority: AskAuthority
  readonly allows: (address: string) => boolean
}

/** The last labels of a name among which zones are looked for: longer names have no zones of their own further down. */
const mostLabels = 8
const mostServers = 8
const mostAddresses = 3

/**
 * Finds the zone of a name. The recursive servers know it, unless its own servers fail: then the servers of the zone
 * above name them.
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

/** Returns the names of the servers of a zone; none when the name is no zone, null when the recursive servers fail. */
async function serverNames(ask: AskRecursively, zone: string, signal: AbortSignal): Promise<string[] | null> {
  try {
    // Signatures that are not right must not hide the servers that gave them.
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

/** Asks the servers of a zone for the zones below it, down to the last name. */
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

/** Asks several servers at once, because those that are silent cost seconds. */
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

/** @param glue addresses that the zone above knows (RFC 9471), for servers whose names are in the zone itself */
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
