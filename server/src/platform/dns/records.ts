import { SocketAddress } from 'node:net'

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

/** The three lists of records of a message, and the upper bits of its rcode, which are in none of them. */
export interface Sections {
  readonly answers: readonly DnsRecord[]
  readonly authorities: readonly DnsRecord[]
  readonly additionals: readonly DnsRecord[]
  readonly extendedRcode: number
}

/** Longer lives are as good as this one: they are only told in words. */
const longestTtl = 604_800

/** A name has 127 labels at most, and no server needs more than a few pointers for one. */
const mostSteps = 144
const longestName = 254

const classIn = 1
const typeOpt = 41

/**
 * Reads the records of a message, the first of which begins at `start`. Throws when it is malformed. Messages come from
 * anybody's servers, so the time grows with their length alone: no name is read twice, however they point at each other.
 */
export function readRecords(message: Buffer, start: number): Sections {
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
  /** The place after it in the message. */
  readonly end: number
}

/** Returns what reads the name at a place of a message. It may go on where a pointer says (RFC 1035, section 4.1.4). */
function createNameReader(message: Buffer): (at: number) => Name {
  // Of each place that a name was read at, also in the midst of another one.
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
    // Names are compared without regard to the case of their letters (RFC 4343).
    const label = message.toString('latin1', at + 1, at + 1 + length).toLowerCase()
    const name = rest.name === '' ? label : `${label}.${rest.name}`
    if (name.length > longestName) throw new Error('A name is too long.')
    return { name, end: rest.end }
  }

  return (at) => read(at, 0)
}

interface Data {
  readonly bytes: Buffer
  /** The place of the first one in the message. */
  readonly at: number
  readonly nameAt: (at: number) => Name
}

/** Returns a record of a type that is asked for; null for all others, of which nothing is read. */
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

/** Returns an IPv6 address as everybody writes it (RFC 5952), so that two of them can be compared. */
function addressOf(bytes: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(2 * index).toString(16))
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address
}

/** The strings of a TXT record belong together (RFC 7208, section 3.3). */
function textOf(bytes: Buffer): string {
  const strings: Buffer[] = []
  for (let at = 0; at < bytes.length; at += 1 + bytes.readUInt8(at))
    strings.push(bytes.subarray(at + 1, at + 1 + bytes.readUInt8(at)))
  return Buffer.concat(strings).toString('utf8')
}
