// Decoded forms of a log's bytes, which are searched for the plain text of a secret.

/** A decoded text, with the begin and the end of each of its characters in the original text. */
export interface Respelled {
  readonly bytes: Buffer
  readonly starts: Uint32Array
  readonly ends: Uint32Array
}

/** Removes line breaks, and turns the URL-safe alphabet of base64 into the usual one (RFC 4648, sections 4 and 5). */
export function unwrapped(bytes: Buffer): Respelled {
  const spelled = emptyFor(bytes)
  let length = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === 0x0a || byte === 0x0d) continue
    spelled.bytes[length] = byte === 0x2d ? 0x2b : byte === 0x5f ? 0x2f : byte
    spelled.starts[length] = at
    spelled.ends[length] = at + 1
    length += 1
  }
  return { ...spelled, bytes: spelled.bytes.subarray(0, length) }
}

/**
 * Decodes `%41` as in a URL.
 *
 * @param plus the byte that every plus becomes, encoded or not: a space where a form is read
 */
export function urlDecoded(bytes: Buffer, plus = 0x20): Respelled {
  const spelled = emptyFor(bytes)
  let length = 0
  for (let at = 0; at < bytes.length; ) {
    const code = bytes[at] === 0x25 ? hexDigit(bytes[at + 1]) * 16 + hexDigit(bytes[at + 2]) : Number.NaN
    const byte = Number.isNaN(code) ? (bytes[at] ?? 0) : code
    spelled.bytes[length] = byte === 0x2b ? plus : byte
    spelled.starts[length] = at
    at += Number.isNaN(code) ? 1 : 3
    spelled.ends[length] = at
    length += 1
  }
  return { ...spelled, bytes: spelled.bytes.subarray(0, length) }
}

/** Decodes a decoded text once more. */
export function twice({ bytes, starts, ends }: Respelled, decode: (bytes: Buffer) => Respelled): Respelled {
  const again = decode(bytes)
  return {
    bytes: again.bytes,
    starts: again.starts.map((at) => starts[at] ?? 0),
    ends: again.ends.map((at) => ends[at - 1] ?? 0),
  }
}

/** `\u0041` */
export const longestEscape = 6
/** The characters of `\n` and the like by their letters. Any other letter is itself. */
const escapeLetters = new Map(
  Object.entries({ b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 }).map(([letter, byte]) => [letter.charCodeAt(0), byte]),
)

/**
 * Decodes `\"`, `\n`, `\x41` and `\u0041`, as JSON has them and as Node and Python print texts. Logs are full of them, so
 * the bytes are read one by one, without a regular expression.
 */
export function unescaped(bytes: Buffer): Respelled {
  const spelled = emptyFor(bytes)
  let length = 0
  const put = (byte: number, from: number, to: number) => {
    spelled.bytes[length] = byte
    spelled.starts[length] = from
    spelled.ends[length] = to
    length += 1
  }
  for (let at = 0; at < bytes.length; ) {
    const byte = bytes[at] ?? 0
    const next = byte === 0x5c ? bytes[at + 1] : undefined
    if (next === undefined) {
      put(byte, at, at + 1)
      at += 1
      continue
    }
    const from = at
    const digits = next === 0x75 ? 4 : next === 0x78 ? 2 : 0
    let character = digits === 0 ? Number.NaN : hexNumber(bytes, at + 2, digits)
    if (Number.isNaN(character)) {
      at += 2
      put(escapeLetters.get(next) ?? next, from, at)
      continue
    }
    at += 2 + digits
    // A character beyond the basic plane is written as two escapes.
    const isFirst = character >= 0xd800 && character < 0xdc00 && bytes[at] === 0x5c && bytes[at + 1] === 0x75
    const second = isFirst ? hexNumber(bytes, at + 2, 4) : Number.NaN
    if (second >= 0xdc00 && second < 0xe000) {
      character = 0x10000 + ((character - 0xd800) << 10) + (second - 0xdc00)
      at += 6
    }
    putCharacter(character, (each) => put(each, from, at))
  }
  return { ...spelled, bytes: spelled.bytes.subarray(0, length) }
}

/** Calls `put` with each byte of a character in UTF-8. */
function putCharacter(character: number, put: (byte: number) => void): void {
  if (character < 0x80) {
    put(character)
    return
  }
  if (character < 0x800) put(0xc0 | (character >> 6))
  else {
    if (character < 0x10000) put(0xe0 | (character >> 12))
    else {
      put(0xf0 | (character >> 18))
      put(0x80 | ((character >> 12) & 0x3f))
    }
    put(0x80 | ((character >> 6) & 0x3f))
  }
  put(0x80 | (character & 0x3f))
}

/** Returns `NaN` when these are not hexadecimal digits. */
function hexNumber(bytes: Buffer, from: number, digits: number): number {
  let value = 0
  for (let at = from; at < from + digits; at += 1) value = value * 16 + hexDigit(bytes[at])
  return value
}

const emptyFor = ({ length }: Buffer): Respelled => ({
  bytes: Buffer.alloc(length),
  starts: new Uint32Array(length),
  ends: new Uint32Array(length),
})

/** Returns `NaN` for any other byte. */
function hexDigit(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : Number.NaN
}
