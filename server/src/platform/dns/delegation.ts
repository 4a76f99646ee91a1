import { DnsError } from './exchange.ts'
import type { DnsAnswer, DnsQuestion, DnsRecord } from './message.ts'
import { type AskRecursively, resolveName } from './resolve.ts'

/** Asks an authoritative server. Rejects with `DnsError`. */
export type AskAuthority = (
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
export async function findZone(access: Access, name: string, signal: AbortSignal): Promise<Zone | null> {
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
