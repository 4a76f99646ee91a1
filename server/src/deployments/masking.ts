/** Shorter values (`1`, `true`, `debug`) are no secrets, and masking them would make any text unreadable. */
const shortestSecret = 8
/** Every place of a form up to this long is looked for, overlapping ones too; of a longer one the first of those. */
const longestOverlapping = 128

/** A part of a text in bytes: the first one, and the one after the last. */
export interface Range {
  readonly from: number
  readonly to: number
}

/** Finds secrets as they are, in JSON, in base64 (also broken into lines, or inside of something longer) or URL-encoded. */
export interface Masker {
  /** No form of a secret is longer than this, in bytes: so much must be seen around a part of a text to mask it. */
  readonly reach: number
  /** Where secrets lie, in order and without overlaps. */
  find(text: Buffer): readonly Range[]
  /** The text with `***` in place of each. */
  mask(text: string): string
}

interface Form {
  readonly text: string
  /** Neighbours that hold some bits of the secret, too. */
  readonly before: 0 | 1
  readonly after: 0 | 1
}

/** A text in another spelling, and where in the text each of its characters begins and ends. */
interface Respelled {
  readonly text: string
  readonly starts: Uint32Array
  readonly ends: Uint32Array
}

export function createMasker(values: readonly string[]): Masker {
  const secrets = [...new Set(values.flatMap((value) => [value, ...value.split(/\r?\n/)]))].filter(
    (value) => value.length >= shortestSecret,
  )
  const plain = unique(secrets.flatMap((value) => [latin1(value), latin1(JSON.stringify(value).slice(1, -1))])).map(
    exact,
  )
  const decoded = unique(secrets.map((value) => latin1(value).replaceAll('+', ' '))).map(exact)
  const base64 = secrets.flatMap(base64Forms)
  // A character takes three bytes in a URL; base64 in lines takes a break for each, though nobody makes lines of one.
  const longest = Math.max(0, ...plain.map(({ text }) => text.length * 3), ...base64.map(({ text }) => text.length * 2))

  const find: Masker['find'] = (bytes) => {
    if (secrets.length === 0) return []
    const text = bytes.toString('latin1')
    const found = placesOf(plain, { text })
    if (/[%+]/.test(text)) found.push(...placesOf(decoded, urlDecoded(bytes)))
    found.push(...placesOf(base64, unwrapped(bytes)))
    return merged(found)
  }

  return {
    reach: longest,
    find,
    mask(text) {
      const bytes = Buffer.from(text)
      return maskRanges(bytes, find(bytes), { from: 0, to: bytes.length })
    },
  }
}

/** Replaces the values of an app's variables in a text. */
export function maskValues(text: string, values: readonly string[]): string {
  return createMasker(values).mask(text)
}

/** A part of a text, with `***` in place of every range, or of as much of it as lies in the part. */
export function maskRanges(text: Buffer, ranges: readonly Range[], part: Range): string {
  let masked = ''
  let at = part.from
  for (const { from, to } of ranges) {
    if (to <= at) continue
    if (from >= part.to) break
    if (from > at) masked += text.toString('utf8', at, from)
    masked += '***'
    at = Math.min(to, part.to)
  }
  return masked + text.toString('utf8', at, part.to)
}

/** The characters of the base64 form that the secret alone decides, for each of the three places it can begin at. */
function base64Forms(secret: string): Form[] {
  const bytes = Buffer.from(secret)
  return ([0, 1, 2] as const).map((shift) => {
    const encoded = Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .replace(/=+$/, '')
    const isWhole = (shift + bytes.length) % 3 === 0
    const text = encoded.slice(shift === 0 ? 0 : shift + 1, isWhole ? undefined : -1)
    return { text, before: shift === 0 ? 0 : 1, after: isWhole ? 0 : 1 }
  })
}

/** Without line breaks and in the first of the two alphabets (RFC 4648, sections 4 and 5). */
function unwrapped(bytes: Buffer): Respelled {
  return respell(bytes, (byte) => {
    if (byte === 0x0a || byte === 0x0d) return null
    return { byte: byte === 0x2d ? 0x2b : byte === 0x5f ? 0x2f : byte, length: 1 }
  })
}

/** With what stands for `%41` in a URL, and with a space for every `+`, however it is written: in a form it is one. */
function urlDecoded(bytes: Buffer): Respelled {
  return respell(bytes, (byte, at) => {
    const high = byte === 0x25 ? hexDigit(bytes[at + 1]) : -1
    const low = high >= 0 ? hexDigit(bytes[at + 2]) : -1
    const meant = low >= 0 ? high * 16 + low : byte
    return { byte: meant === 0x2b ? 0x20 : meant, length: low >= 0 ? 3 : 1 }
  })
}

function respell(
  bytes: Buffer,
  next: (byte: number, at: number) => { byte: number; length: number } | null,
): Respelled {
  const text = Buffer.alloc(bytes.length)
  const starts = new Uint32Array(bytes.length)
  const ends = new Uint32Array(bytes.length)
  let length = 0
  for (let at = 0; at < bytes.length; ) {
    const spelled = next(bytes[at] ?? 0, at)
    if (spelled === null) {
      at += 1
      continue
    }
    text[length] = spelled.byte
    starts[length] = at
    at += spelled.length
    ends[length] = at
    length += 1
  }
  return { text: text.toString('latin1', 0, length), starts, ends }
}

function placesOf(forms: readonly Form[], spelled: { readonly text: string } & Partial<Respelled>): Range[] {
  const { text, starts, ends } = spelled
  const found: Range[] = []
  for (const form of forms) {
    const step = form.text.length <= longestOverlapping ? 1 : form.text.length
    for (let at = text.indexOf(form.text); at >= 0; at = text.indexOf(form.text, at + step)) {
      const from = Math.max(0, at - form.before)
      const to = Math.min(text.length, at + form.text.length + form.after)
      found.push({ from: starts?.[from] ?? from, to: ends?.[to - 1] ?? to })
    }
  }
  return found
}

function merged(ranges: Range[]): Range[] {
  const result: { from: number; to: number }[] = []
  for (const range of ranges.sort((a, b) => a.from - b.from)) {
    const last = result.at(-1)
    if (last !== undefined && range.from <= last.to) last.to = Math.max(last.to, range.to)
    else result.push({ ...range })
  }
  return result
}

function hexDigit(byte: number | undefined): number {
  const digit = byte === undefined ? Number.NaN : Number.parseInt(String.fromCharCode(byte), 16)
  return Number.isNaN(digit) ? -1 : digit
}

const exact = (text: string): Form => ({ text, before: 0, after: 0 })
const latin1 = (text: string): string => Buffer.from(text).toString('latin1')
const unique = (texts: readonly string[]): string[] => [...new Set(texts)]
