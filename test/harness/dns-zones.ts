import type { Answer, Packet, Question, RecordType, StringAnswer } from 'dns-packet'

/** A zone as one of its servers has it. */
export interface ZoneData {
  /** '' is the root. */
  readonly name: string
  /** The names and addresses of its servers. */
  readonly servers: readonly { readonly name: string; readonly address: string }[]
  readonly records: readonly Answer[]
}

export type ZoneAnswer = Packet & { readonly rcode?: number }

const authoritative = 0x0400
export const rcodes = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const

/**
 * Reads the records of a zone. A line has a name, an optional lifetime in seconds, a type and its data. Names on the
 * left are below the zone (`@` is the zone itself), all others are absolute.
 */
export function readZone(zone: string, text: string): Answer[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith(';'))
    .map((line) => {
      const [, label = '', ttl = '300', type = '', data = ''] =
        /^(\S+)\s+(?:(\d+)\s+)?([A-Z]+)\s+(.*)$/.exec(line) ?? []
      const name = label === '@' ? zone : [label, zone].filter((part) => part !== '').join('.')
      return { name, ttl: Number(ttl), type, class: 'IN', data: readData(type, data) } as Answer
    })
}

function readData(type: string, text: string): unknown {
  if (type === 'MX') return { preference: 10, exchange: text }
  if (type === 'TXT') return text.split(' | ')
  if (type !== 'CAA') return text
  const [, flags = '0', tag = '', value = ''] = /^(\d+)\s+(\S+)\s+"?([^"]*)"?$/.exec(text) ?? []
  return { flags: Number(flags), tag, value }
}

export const isWithin = (name: string, zone: string): boolean =>
  zone === '' || name === zone || name.endsWith(`.${zone}`)

/**
 * Answers as an authoritative server with these zones does. `all` are the zones of the world, to which the server
 * delegates.
 */
export function answerFromZones(zones: readonly ZoneData[], all: readonly ZoneData[], question: Question): ZoneAnswer {
  const zone = deepest(zones, question.name)
  if (zone === undefined) return { rcode: rcodes.REFUSED }
  const below = deepest(all, question.name)
  if (below !== undefined && below.name.length > zone.name.length) return referral(childOf(zone, all, question.name))
  const answers: Answer[] = []
  let name = question.name
  for (;;) {
    const found = recordsAt(zone, name)
    const matching = found.records.filter(({ type }) => type === question.type)
    const alias = found.records.find((record): record is StringAnswer => record.type === 'CNAME')
    answers.push(...(matching.length > 0 ? matching : alias === undefined ? [] : [alias]))
    const isEnd = matching.length > 0 || alias === undefined
    if (isEnd) {
      const rcode = found.exists ? 0 : rcodes.NXDOMAIN
      return { rcode, flags: authoritative, answers, authorities: matching.length > 0 ? [] : [soaOf(zone)] }
    }
    name = alias.data.toLowerCase()
    const isSeen = answers.some((each) => each.name === name)
    if (isSeen || !isWithin(name, zone.name) || deepest(all, name) !== zone) return { flags: authoritative, answers }
  }
}

const deepest = (zones: readonly ZoneData[], name: string): ZoneData | undefined =>
  zones.filter((zone) => isWithin(name, zone.name)).toSorted((one, other) => other.name.length - one.name.length)[0]

/** Returns the zone directly below another zone, on the way to a name. */
function childOf(zone: ZoneData, all: readonly ZoneData[], name: string): ZoneData {
  const between = all.filter((each) => isWithin(name, each.name) && each.name.length > zone.name.length)
  return between.toSorted((one, other) => one.name.length - other.name.length)[0] as ZoneData
}

function referral({ name, servers }: ZoneData): ZoneAnswer {
  return {
    authorities: servers.map((server) => ({ name, type: 'NS', ttl: 3600, data: server.name })),
    additionals: servers.map((server) => ({ name: server.name, type: 'A', ttl: 3600, data: server.address })),
  }
}

function recordsAt(zone: ZoneData, name: string): { readonly exists: boolean; readonly records: readonly Answer[] } {
  const own = [...zone.records, ...apexRecords(zone)]
  const exact = own.filter((record) => record.name === name)
  if (exact.length > 0) return { exists: true, records: exact }
  if (own.some((record) => record.name.endsWith(`.${name}`)) || name === zone.name) return { exists: true, records: [] }
  const parent = name.slice(name.indexOf('.') + 1)
  const wild = isWithin(parent, zone.name) ? own.filter((record) => record.name === `*.${parent}`) : []
  return { exists: wild.length > 0, records: wild.map((record) => ({ ...record, name })) }
}

function apexRecords(zone: ZoneData): Answer[] {
  const servers = zone.servers.map(({ name: data }) => ({ name: zone.name, type: 'NS', ttl: 3600, data }) as const)
  const addresses = zone.servers
    .filter(({ name }) => isWithin(name, zone.name))
    .map(({ name, address: data }) => ({ name, type: 'A', ttl: 3600, data }) as const)
  return [soaOf(zone), ...servers, ...addresses]
}

function soaOf({ name, servers }: ZoneData): Answer {
  const data = {
    mname: servers[0]?.name ?? 'ns',
    rname: 'admin.example.com',
    serial: 1,
    refresh: 1,
    retry: 1,
    expire: 1,
  }
  return { name, type: 'SOA', ttl: 900, data: { ...data, minimum: 600 } }
}

export type { Answer, Question, RecordType }
