import { SocketAddress } from 'node:net'
import { type Answer, encode } from 'dns-packet'

export type DnsType = 'A' | 'AAAA' | 'CAA' | 'CNAME' | 'MX' | 'NS' | 'SOA' | 'TXT'

export interface DnsQuestion {
  /** The name without a trailing dot; '' is the root. */
  readonly name: string
  readonly type: DnsType
  /** True asks the server to resolve the name (RD); false asks only for the server's own data. */
  readonly recursion: boolean
  /** True also asks for records that fail DNSSEC validation (CD; RFC 4035, section 3.2.2). */
  readonly checkingDisabled?: boolean
}

export interface DnsAnswer {
  /** The name of the code, such as `NOERROR`, `NXDOMAIN`, `SERVFAIL`, `REFUSED`. */
  readonly rcode: string
  /** AA: the server is authoritative for the zone of the name. */
  readonly isAuthoritative: boolean
  /** TC: the answer was too long for UDP. */
  readonly isTruncated: boolean
  /** RA: the server resolves names for us. */
  readonly isRecursionAvailable: boolean
  /** AD: the server has validated the DNSSEC signatures. */
  readonly isAuthenticated: boolean
  readonly answers: readonly DnsRecord[]
  readonly authorities: readonly DnsRecord[]
  readonly additionals: readonly DnsRecord[]
}

const recursionDesired = 0x0100
const authenticData = 0x0020
const checkingDisabled = 0x0010

/** The size that passes every network without fragments (RFC 9715). */
const udpPayloadSize = 1232

/** @param edns false for servers without EDNS (RFC 6891, section 7) */
export function encodeQuery(id: number, question: DnsQuestion, edns: boolean): Buffer {
  const { name, type, recursion } = question
  const options: Answer = {
    ...{ type: 'OPT', name: '.', udpPayloadSize, extendedRcode: 0, ednsVersion: 0, flags: 0, flag_do: false },
    options: [],
  }
  return encode({
    type: 'query',
    id,
    // AD in a query asks for the AD flag of the answer, without the signatures (RFC 6840, section 5.7).
    flags:
      (recursion ? recursionDesired : 0) |
      (question.checkingDisabled === true ? checkingDisabled : edns ? authenticData : 0),
    questions: [{ name: name === '' ? '.' : name, type, class: 'IN' }],
    additionals: edns ? [options] : [],
  })
}

/** True when a name can be put into a query: labels of 1 to 63 characters, 253 in all (RFC 1035, section 2.3.4). */
export function canBeAsked(name: string): boolean {
  return name === '' || (name.length <= 253 && /^([\w*-]{1,63}\.)*[\w*-]{1,63}$/.test(name))
}

/** The names of rcodes, by their numbers (RFC 1035, section 4.1.1; RFC 2136, section 2.2). */
const rcodes = [
  ...['NOERROR', 'FORMERR', 'SERVFAIL', 'NXDOMAIN', 'NOTIMP', 'REFUSED'],
  ...['YXDOMAIN', 'YXRRSET', 'NXRRSET', 'NOTAUTH', 'NOTZONE'],
]
const headerLength = 12

/**
 * Decodes the answer to a question. Returns undefined for a message that does not answer the question, such as a
 * forged message (RFC 5452, section 9.1), before it reads any record. Throws for a malformed answer.
 */
export function decodeAnswer(message: Buffer, id: number, question: DnsQuestion): DnsAnswer | undefined {
  if (message.length < headerLength || message.readUInt16BE(0) !== id) return undefined
  const flags = message.readUInt16BE(2)
  if ((flags & 0x8000) === 0) return undefined
  const rcode = rcodes[flags & 0xf] ?? `RCODE_${flags & 0xf}`
  const questionEnd = endOfQuestion(message, rcode, question)
  if (questionEnd === undefined) return undefined
  const { extendedRcode, ...sections } = readRecords(message, questionEnd)
  return {
    rcode: extendedRcode === 0 ? rcode : `EXTENDED_${extendedRcode}`,
    isAuthoritative: (flags & 0x0400) !== 0,
    isTruncated: (flags & 0x0200) !== 0,
    isRecursionAvailable: (flags & 0x0080) !== 0,
    isAuthenticated: (flags & authenticData) !== 0,
    ...sections,
  }
}

/** Returns the offset after the question of a message; undefined when this is not the question that was asked. */
function endOfQuestion(message: Buffer, rcode: string, question: DnsQuestion): number | undefined {
  const count = message.readUInt16BE(4)
  // A server that does not understand a query may leave its question out.
  if (count === 0 && ['FORMERR', 'NOTIMP', 'SERVFAIL', 'REFUSED'].includes(rcode)) return headerLength
  const asked = encodeQuery(0, question, false).subarray(headerLength)
  const answered = message.subarray(headerLength, headerLength + asked.length)
  return count === 1 && isSameQuestion(asked, answered) ? headerLength + asked.length : undefined
}

/** Names are case-insensitive (RFC 4343). No byte of a length, type or class is an ASCII letter. */
const isSameQuestion = (one: Buffer, other: Buffer): boolean =>
  one.toString('latin1').toLowerCase() === other.toString('latin1').toLowerCase()

interface Owner {
  /** In lower case, without a trailing dot; '' is the root. */
  readonly name: string
  /** Seconds. */
  readonly ttl: number
}

export type DnsRecord = Owner &
  (
    | { readonly type: 'A' | 'AAAA'; readonly address: string }
    | { readonly type: 'CNAME' | 'NS'; readonly target: string }
    | { readonly type: 'TXT'; readonly text: string }
    | { readonly type: 'CAA'; readonly isCritical: boolean; readonly tag: string; readonly value: string }
    /** `negativeTtl`: the seconds for which resolvers may cache that a name does not exist (RFC 2308). */
    | { readonly type: 'SOA'; readonly negativeTtl: number }
    | { readonly type: 'MX' }
  )

/** The three record sections of a message, and the upper bits of its rcode, which the OPT record contains. */
export interface Sections {
  readonly answers: readonly DnsRecord[]
  readonly authorities: readonly DnsRecord[]
  readonly additionals: readonly DnsRecord[]
  readonly extendedRcode: number
}

/** One week. TTLs appear only in texts for users, so longer ones are cut. */
const longestTtl = 604_800

/** A name has 127 labels at most, and no server needs more than a few pointers. */
const mostSteps = 144
const longestName = 254

const classIn = 1
const typeOpt = 41

/**
 * Throws for a malformed message. Messages come from untrusted servers, so the run time must grow only with their
 * length: no name is read twice, however names point at each other.
 */
function readRecords(message: Buffer, start: number): Sections {
  const nameAt = createNameReader(message)
  let at = start
  let extendedRcode = 0
  const section = (count: number): DnsRecord[] => {
    const records: DnsRecord[] = []
    for (let index = 0; index < count; index += 1) {
      const { name, end } = nameAt(at)
      const type = message.readUInt16BE(end)
      const dataAt = end + 10
      at = dataAt + message.readUInt16BE(end + 8)
      if (at > message.length) throw new Error('A record is longer than its message.')
      if (type === typeOpt) extendedRcode = message.readUInt8(end + 4)
      if (message.readUInt16BE(end + 2) !== classIn) continue
      const record = recordOf({ name, ttl: ttlOf(message.readUInt32BE(end + 4)) }, type, {
        bytes: message.subarray(dataAt, at),
        at: dataAt,
        nameAt,
      })
      if (record !== null) records.push(record)
    }
    return records
  }
  const [answers, authorities, additionals] = [6, 8, 10].map((countAt) => section(message.readUInt16BE(countAt)))
  return { answers: answers ?? [], authorities: authorities ?? [], additionals: additionals ?? [], extendedRcode }
}

/** The highest bit set means zero (RFC 2181, section 8). */
const ttlOf = (given: number): number => (given > 0x7fff_ffff ? 0 : Math.min(given, longestTtl))

interface Name {
  readonly name: string
  readonly end: number
}

/** Follows pointers (RFC 1035, section 4.1.4). */
function createNameReader(message: Buffer): (at: number) => Name {
  // By offset, which may lie inside a longer name.
  const known = new Map<number, Name>()

  const read = (at: number, steps: number): Name => {
    const before = known.get(at)
    if (before !== undefined) return before
    if (steps > mostSteps) throw new Error('A name has no end.')
    const name = readNew(at, steps)
    known.set(at, name)
    return name
  }

  const readNew = (at: number, steps: number): Name => {
    const length = message.readUInt8(at)
    if (length === 0) return { name: '', end: at + 1 }
    if (length >= 0xc0) return { name: read(message.readUInt16BE(at) & 0x3fff, steps + 1).name, end: at + 2 }
    if (length >= 0x40) throw new Error('A name has a label of an unknown kind.')
    const rest = read(at + 1 + length, steps + 1)
    // Names are case-insensitive (RFC 4343).
    const label = message.toString('latin1', at + 1, at + 1 + length).toLowerCase()
    const name = rest.name === '' ? label : `${label}.${rest.name}`
    if (name.length > longestName) throw new Error('A name is too long.')
    return { name, end: rest.end }
  }

  return (at) => read(at, 0)
}

interface Data {
  readonly bytes: Buffer
  readonly at: number
  readonly nameAt: (at: number) => Name
}

/** Returns null, without reading the data, for a type that is no `DnsType`. */
function recordOf(owner: Owner, type: number, { bytes, at, nameAt }: Data): DnsRecord | null {
  switch (type) {
    case 1:
      return { ...owner, type: 'A', address: withLength(bytes, 4).join('.') }
    case 28:
      return { ...owner, type: 'AAAA', address: addressOf(withLength(bytes, 16)) }
    case 5:
      return { ...owner, type: 'CNAME', target: nameAt(at).name }
    case 2:
      return { ...owner, type: 'NS', target: nameAt(at).name }
    case 16:
      return { ...owner, type: 'TXT', text: textOf(bytes) }
    case 257: {
      const valueAt = 2 + bytes.readUInt8(1)
      const tag = bytes.toString('utf8', 2, valueAt).toLowerCase()
      const isCritical = (bytes.readUInt8(0) & 0x80) !== 0
      return { ...owner, type: 'CAA', isCritical, tag, value: bytes.toString('utf8', valueAt) }
    }
    case 6:
      return { ...owner, type: 'SOA', negativeTtl: Math.min(owner.ttl, bytes.readUInt32BE(bytes.length - 4)) }
    case 15:
      return { ...owner, type: 'MX' }
    default:
      return null
  }
}

function withLength(bytes: Buffer, length: number): Buffer {
  if (bytes.length !== length) throw new Error('A record with an address has none.')
  return bytes
}

/** Returns an IPv6 address in canonical form (RFC 5952), so that addresses can be compared. */
function addressOf(bytes: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(2 * index).toString(16))
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address
}

/** Joins the strings of a TXT record (RFC 7208, section 3.3). */
function textOf(bytes: Buffer): string {
  const strings: Buffer[] = []
  for (let at = 0; at < bytes.length; at += 1 + bytes.readUInt8(at))
    strings.push(bytes.subarray(at + 1, at + 1 + bytes.readUInt8(at)))
  return Buffer.concat(strings).toString('utf8')
}
