import { isIP, SocketAddress } from 'node:net'
import { type Answer, type DecodedPacket, decode, encode, type Question } from 'dns-packet'

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

interface Owner {
  /** In lower case, without a dot at its end; '' is the root. */
  readonly name: string
  /** Seconds. */
  readonly ttl: number
}

/** A record that was understood; all others are left out of answers. */
export type DnsRecord = Owner &
  (
    | { readonly type: 'A' | 'AAAA'; readonly address: string }
    | { readonly type: 'CNAME' | 'NS'; readonly target: string }
    | { readonly type: 'TXT'; readonly text: string }
    | { readonly type: 'CAA'; readonly isCritical: boolean; readonly tag: string; readonly value: string }
    /** `negativeTtl`: the seconds for which others may keep that a name is missing (RFC 2308). */
    | { readonly type: 'SOA'; readonly negativeTtl: number }
    | { readonly type: 'MX' }
  )

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

/** Longer lives are as good as this one: they are only told in words. */
const longestTtl = 604_800

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

/**
 * Decodes the answer to a question. Returns undefined for a message that is no answer to it, such as one that somebody else
 * has sent (RFC 5452, section 9.1). Throws when it is malformed.
 */
export function decodeAnswer(message: Buffer, id: number, question: DnsQuestion): DnsAnswer | undefined {
  if (message.length < 12 || message.readUInt16BE(0) !== id || (message.readUInt8(2) & 0x80) === 0) return undefined
  const packet = decode(message) as DecodedPacket & { readonly rcode: string }
  const { questions = [], answers = [], authorities = [], additionals = [] } = packet
  const rcode = rcodeOf(packet)
  const isRefusal = ['FORMERR', 'NOTIMP', 'SERVFAIL', 'REFUSED'].includes(rcode)
  // Servers that do not understand a query may leave its question out.
  if (questions.length === 0 ? !isRefusal : !asks(questions, question)) return undefined
  return {
    rcode,
    isAuthoritative: packet.flag_aa,
    isTruncated: packet.flag_tc,
    isRecursionAvailable: packet.flag_ra,
    isAuthenticated: packet.flag_ad,
    answers: answers.flatMap(recordOf),
    authorities: authorities.flatMap(recordOf),
    additionals: additionals.flatMap(recordOf),
  }
}

function asks(questions: readonly Question[], { name, type }: DnsQuestion): boolean {
  const [asked, ...more] = questions
  return asked !== undefined && more.length === 0 && asked.type === type && plain(asked.name) === name.toLowerCase()
}

function rcodeOf({ rcode, additionals = [] }: DecodedPacket & { readonly rcode: string }): string {
  const extended = additionals.find((each) => each.type === 'OPT')?.extendedRcode ?? 0
  return extended === 0 ? rcode : `EXTENDED_${extended}`
}

/** Names are compared without regard to the case of their letters (RFC 4343). */
const plain = (name: string): string => (name === '.' ? '' : name.replace(/\.$/, '').toLowerCase())

function recordOf(answer: Answer): DnsRecord[] {
  if (answer.type === 'OPT' || (answer.class ?? 'IN') !== 'IN') return []
  const { ttl: given = 0 } = answer
  // The highest bit set means zero (RFC 2181, section 8).
  const owner: Owner = { name: plain(answer.name), ttl: given > 0x7fff_ffff ? 0 : Math.min(given, longestTtl) }
  switch (answer.type) {
    case 'A':
    case 'AAAA':
      return isIP(answer.data) === (answer.type === 'A' ? 4 : 6)
        ? [{ ...owner, type: answer.type, address: plainAddress(answer.data) }]
        : []
    case 'CNAME':
    case 'NS':
      return [{ ...owner, type: answer.type, target: plain(answer.data) }]
    case 'TXT':
      return [{ ...owner, type: 'TXT', text: textOf(answer.data) }]
    case 'CAA': {
      const { issuerCritical = false, tag, value } = answer.data
      return [{ ...owner, type: 'CAA', isCritical: issuerCritical, tag: tag.toLowerCase(), value }]
    }
    case 'SOA':
      return [{ ...owner, type: 'SOA', negativeTtl: Math.min(owner.ttl, answer.data.minimum ?? 0) }]
    case 'MX':
      return [{ ...owner, type: 'MX' }]
    default:
      return []
  }
}

/** Returns an IP address as everybody writes it (RFC 5952), so that two of them can be compared. */
const plainAddress = (address: string): string =>
  address.includes(':') ? new SocketAddress({ address, family: 'ipv6' }).address : address

/** The strings of a TXT record belong together (RFC 7208, section 3.3). */
function textOf(data: string | Buffer | readonly (string | Buffer)[]): string {
  const strings = Array.isArray(data) ? data : [data]
  return strings.map((each) => (typeof each === 'string' ? each : each.toString('utf8'))).join('')
}
