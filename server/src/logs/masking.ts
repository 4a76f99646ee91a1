import { ownTurn } from '../platform/turns.ts'
import { atOnce, type Finder, findersSteps, type Pattern, type Range } from './pattern-search.ts'

/** Shorter values (`1`, `true`, `debug`) are not secret, and masking them would make texts unreadable. */
const shortestSecret = 8
/** Longer values are searched in pieces of at least this many bytes, because a piece of a secret is secret, too. */
const pieceLength = 64

/**
 * Finds secrets in plain text, in escapes of JSON and programming languages, in URLs, and in base64. Base64 may be
 * wrapped, part of a longer text, and itself escaped or URL-encoded. White space around a secret may be missing.
 */
export interface Masker {
  /**
   * The bytes of the longest form of a secret. To mask a part of a text, this many bytes on both sides must be
   * searched, too.
   */
  readonly reach: number
  /** Returns the positions of secrets, in order and without overlaps. */
  find(text: Buffer): readonly Range[]
  /** Replaces each secret by `***`. */
  mask(text: string): string
}

export const createMasker = (values: readonly string[]): Masker => atOnce(maskerSteps(values))

/** Like `createMasker`, but lets other work run in between, because many values take a hundred milliseconds. */
export async function createMaskerInTurns(values: readonly string[]): Promise<Masker> {
  const steps = maskerSteps(values)
  for (;;) {
    await ownTurn()
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

function* maskerSteps(values: readonly string[]): Generator<void, Masker> {
  // Programs often trim values that they read.
  const lines = values.flatMap((value) => [value, ...value.split(/\r\n|\r|\n/)])
  const secrets = [...new Set(lines.flatMap((line) => [line, line.trim()]))]
    .filter((value) => value.length >= shortestSecret)
    .map((value) => Buffer.from(value))
  const inJson = secrets.map((secret) => Buffer.from(JSON.stringify(secret.toString()).slice(1, -1)))
  const plainPatterns = [...secrets, ...inJson].flatMap(piecesOf).map((piece) => exact(piece.toString('latin1')))
  const base64Patterns = secrets.flatMap(piecesOf).flatMap(inBase64)
  const findPlain = yield* findersSteps(plainPatterns)
  const findDecoded = plainPatterns.some(({ text }) => text.includes('+'))
    ? yield* findersSteps(plainPatterns.map(({ text }) => exact(text.replaceAll('+', ' '))))
    : findPlain
  const findBase64 = yield* findersSteps(base64Patterns)
  // An escaped byte takes at most six bytes. Wrapped base64 has at most one line break for each character.
  const reach = Math.max(longest(plainPatterns), longest(base64Patterns)) * longestEscape

  const inEscapes = (text: Decoded, bytes: Buffer) => [
    rangesIn(findPlain, text, bytes),
    rangesIn(findBase64, twice(text, unwrapped), bytes),
  ]
  const inUrl = (bytes: Buffer) => [
    rangesIn(findDecoded, urlDecoded(bytes), bytes),
    rangesIn(findBase64, twice(urlDecoded(bytes, 0x2b), unwrapped), bytes),
  ]

  const find: Masker['find'] = (bytes) => {
    if (secrets.length === 0) return []
    const hasEscapes = bytes.includes('\\')
    const mayBeUrl = bytes.includes('%') || bytes.includes('+')
    return merged(
      [
        findPlain.all(bytes),
        rangesIn(findBase64, unwrapped(bytes), bytes),
        ...(hasEscapes ? inEscapes(unescaped(bytes), bytes) : []),
        ...(mayBeUrl ? inUrl(bytes) : []),
      ].flat(),
    )
  }

  return {
    reach,
    find,
    mask(text) {
      const bytes = Buffer.from(text)
      return maskRanges(bytes, find(bytes), { from: 0, to: bytes.length })
    },
  }
}

/** Returns a part of a text, with `***` in place of every range that overlaps it. */
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

function piecesOf(secret: Buffer): Buffer[] {
  const count = Math.max(1, Math.floor(secret.length / pieceLength))
  return Array.from({ length: count }, (_, index) =>
    secret.subarray(index * pieceLength, index === count - 1 ? undefined : (index + 1) * pieceLength),
  )
}

/** Returns the base64 characters that depend only on the secret, for each of its three possible offsets. */
function inBase64(secret: Buffer): Pattern[] {
  return ([0, 1, 2] as const).map((shift) => {
    const encoded = Buffer.concat([Buffer.alloc(shift), secret])
      .toString('base64')
      .replace(/=+$/, '')
    const isWhole = (shift + secret.length) % 3 === 0
    const text = encoded.slice(shift === 0 ? 0 : shift + 1, isWhole ? undefined : -1)
    return { text, before: shift === 0 ? 0 : 1, after: isWhole ? 0 : 1 }
  })
}

/** Finds patterns in a decoded text. Returns positions in the original text. */
function rangesIn(finder: Finder, decoded: Decoded, original: Buffer): Range[] {
  const { bytes, starts, ends } = decoded
  const found = finder.all(bytes).map(({ from, to }) => ({ from: starts[from] ?? 0, to: ends[to - 1] ?? 0 }))
  return found.concat(rangesAfterEscapes(finder, decoded, original))
}

/** Finds patterns that begin inside an escape: in `%a7…` the `%a` may end other text, and the 7 begin a secret. */
function rangesAfterEscapes(finder: Finder, { bytes, starts, ends }: Decoded, original: Buffer): Range[] {
  const found: Range[] = []
  for (let at = 0; at < bytes.length; at += 1) {
    const [start = 0, end = 0] = [starts[at], ends[at]]
    // Skip bytes outside escapes, and all but the last byte of a character.
    if (end - start < 2 || starts[at + 1] === start) continue
    for (let from = start + 1; from < end; from += 1) {
      const length = finder.continuing(original.subarray(from, end), bytes, at + 1)
      if (length > 0) found.push({ from, to: ends[at + length - (end - from)] ?? original.length })
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

const exact = (text: string): Pattern => ({ text, before: 0, after: 0 })

const longest = (patterns: readonly Pattern[]): number =>
  patterns.reduce((most, { text }) => Math.max(most, text.length), 0)

// Decoders of a log's bytes, whose results are searched for secrets in plain text.

/** A decoded text, with the start and the end of each of its bytes in the original text. */
interface Decoded {
  readonly bytes: Buffer
  readonly starts: Uint32Array
  readonly ends: Uint32Array
}

/** Removes line breaks, and turns base64url into base64 (RFC 4648, sections 4 and 5). */
function unwrapped(bytes: Buffer): Decoded {
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
 * Decodes `%41`.
 *
 * @param plus stands for every plus, encoded or not: a space in form data
 */
function urlDecoded(bytes: Buffer, plus = 0x20): Decoded {
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

function twice({ bytes, starts, ends }: Decoded, decode: (bytes: Buffer) => Decoded): Decoded {
  const again = decode(bytes)
  return {
    bytes: again.bytes,
    starts: again.starts.map((at) => starts[at] ?? 0),
    ends: again.ends.map((at) => ends[at - 1] ?? 0),
  }
}

const longestEscape = 6
/** The characters of escapes such as `\n`. Any other letter stands for itself. */
const escapeLetters = new Map(
  Object.entries({ b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 }).map(([letter, byte]) => [letter.charCodeAt(0), byte]),
)

/**
 * Decodes `\"`, `\n`, `\x41` and `\u0041`, as in JSON and in the output of Node and Python. Logs contain many escapes,
 * so this reads bytes without a regular expression.
 */
function unescaped(bytes: Buffer): Decoded {
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
    // Two escapes stand for a character outside the Basic Multilingual Plane.
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

/** Returns `NaN` for other characters. */
function hexNumber(bytes: Buffer, from: number, digits: number): number {
  let value = 0
  for (let at = from; at < from + digits; at += 1) value = value * 16 + hexDigit(bytes[at])
  return value
}

const emptyFor = ({ length }: Buffer): Decoded => ({
  bytes: Buffer.alloc(length),
  starts: new Uint32Array(length),
  ends: new Uint32Array(length),
})

/** Returns `NaN` for other bytes. */
function hexDigit(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : Number.NaN
}
