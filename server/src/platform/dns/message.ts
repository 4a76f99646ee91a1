import { type Answer, encode } from 'dns-packet'
import { type DnsRecord, readRecords } from './records.ts'

export type { DnsRecord } from './records.ts'

/** The types of records that are asked for. */
export type DnsType = 'A' | 'AAAA' | 'CAA' | 'CNAME' | 'MX' | 'NS' | 'SOA' | 'TXT'

export interface DnsQuestion {
  /** Without a dot at its end; '' is the root. */
  readonly name: string
  readonly type: DnsType
  /** True asks the server to resolve the name (RD); false for what it knows itself. */
  readonly recursion: boolean
  /** True asks for records that fail DNSSEC, too (CD; RFC 4035, section 3.2.2). */
  readonly checkingDisabled?: boolean
}

/** The answer of one server. */
export interface DnsAnswer {
  /** Such as `NOERROR`, `NXDOMAIN`, `SERVFAIL`, `REFUSED`. */
  readonly rcode: string
  /** AA: the server has the zone of the name itself. */
  readonly isAuthoritative: boolean
  /** TC: the answer was too long for UDP. */
  readonly isTruncated: boolean
  /** RA: the server resolves names for us. */
  readonly isRecursionAvailable: boolean
  /** AD: the server has checked the signatures of DNSSEC. */
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

/** Encodes a query. Without `edns` for servers that do not know it (RFC 6891, section 7). */
export function encodeQuery(id: number, question: DnsQuestion, edns: boolean): Buffer {
  const { name, type, recursion } = question
  const options: Answer = {
    ...{ type: 'OPT', name: '.', udpPayloadSize, extendedRcode: 0, ednsVersion: 0, flags: 0, flag_do: false },
    options: [],
  }
  return encode({
    type: 'query',
    id,
    // AD asks for AD in the answer without the signatures themselves (RFC 6840, section 5.7).
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
 * Decodes the answer to a question. Returns undefined for a message that is no answer to it, such as one that somebody else
 * has sent (RFC 5452, section 9.1): that is told before any record is read. Throws when it is malformed.
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

/** Returns where the question of a message ends; undefined when it is another one than was asked. */
function endOfQuestion(message: Buffer, rcode: string, question: DnsQuestion): number | undefined {
  const count = message.readUInt16BE(4)
  // Servers that do not understand a query may leave its question out.
  if (count === 0 && ['FORMERR', 'NOTIMP', 'SERVFAIL', 'REFUSED'].includes(rcode)) return headerLength
  const asked = encodeQuery(0, question, false).subarray(headerLength)
  const answered = message.subarray(headerLength, headerLength + asked.length)
  return count === 1 && isSameQuestion(asked, answered) ? headerLength + asked.length : undefined
}

/** Names are compared without regard to the case of their letters (RFC 4343). No byte of a length, type or class is one. */
const isSameQuestion = (one: Buffer, other: Buffer): boolean =>
  one.toString('latin1').toLowerCase() === other.toString('latin1').toLowerCase()
