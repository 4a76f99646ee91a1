import { ownTurn } from '../platform/turns.ts'
import { longestEscape, type Respelled, twice, unescaped, unwrapped, urlDecoded } from './masking-spellings.ts'
import { atOnce, type Finder, findersSteps, type Pattern, type Range } from './pattern-search.ts'

/** Shorter values (`1`, `true`, `debug`) are not secret, and masking them would make any text unreadable. */
const shortestSecret = 8
/** A longer value is searched for in pieces of at least this many bytes: a piece of a secret is secret, too. */
const pieceLength = 64

/**
 * Finds secrets in plain text, with the escapes of JSON and of programming languages, URL-encoded, or in base64, which may be
 * broken into lines, lie within a longer encoded text, and be escaped or URL-encoded itself. The white space around them may be missing.
 */
export interface Masker {
  /** The length of the longest form of a secret in bytes. To mask a part of a text, this much must be seen around it. */
  readonly reach: number
  /** Returns the positions of secrets, in order and without overlaps. */
  find(text: Buffer): readonly Range[]
  /** Replaces each secret by `***`. */
  mask(text: string): string
}

export const createMasker = (values: readonly string[]): Masker => atOnce(maskerSteps(values))

/** Does as `createMasker`, in turns with others: a masker of many values takes a hundred milliseconds. */
export async function createMaskerInTurns(values: readonly string[]): Promise<Masker> {
  const steps = maskerSteps(values)
  for (;;) {
    await ownTurn()
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

function* maskerSteps(values: readonly string[]): Generator<void, Masker> {
  // Programs trim what they read.
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
  // A byte takes at most six as an escape. Base64 in lines has at most one line break for each character.
  const reach = Math.max(longest(plainPatterns), longest(base64Patterns)) * longestEscape

  const inEscapes = (text: Respelled, bytes: Buffer) => [
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

/** Returns the base64 characters that the secret alone determines, for each of the three offsets it can begin at. */
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

/** Finds patterns in a decoded text, and returns their positions in the original one. */
function rangesIn(finder: Finder, decoded: Respelled, original: Buffer): Range[] {
  const { bytes, starts, ends } = decoded
  const found = finder.all(bytes).map(({ from, to }) => ({ from: starts[from] ?? 0, to: ends[to - 1] ?? 0 }))
  return found.concat(rangesAfterEscapes(finder, decoded, original))
}

/**
 * Finds patterns that begin within what was decoded as an escape: in `%a7…` the percent sign and the `a` may be the end of other
 * text, and the 7 the first character of a secret.
 */
function rangesAfterEscapes(finder: Finder, { bytes, starts, ends }: Respelled, original: Buffer): Range[] {
  const found: Range[] = []
  for (let at = 0; at < bytes.length; at += 1) {
    const [start = 0, end = 0] = [starts[at], ends[at]]
    // The last byte of an escape, when that is a character of several bytes.
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
