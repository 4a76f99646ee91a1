import { longestEscape, type Respelled, unescaped, unwrapped, urlDecoded } from './masking-spellings.ts'

/** Shorter values (`1`, `true`, `debug`) are not secret, and masking them would make any text unreadable. */
const shortestSecret = 8
/** A longer value is searched for in pieces of at least this many bytes: a piece of a secret is secret, too. */
const pieceLength = 64
/** The number of bytes of a form that are looked up at once; no form is shorter. */
const prefixLength = 8

/** A part of a text in bytes, from the first one to the one after the last. */
export interface Range {
  readonly from: number
  readonly to: number
}

/**
 * Finds secrets in plain text, with the escapes of JSON and of programming languages, in base64 (also broken into lines,
 * or within a longer encoded text) or URL-encoded.
 */
export interface Masker {
  /** The length of the longest form of a secret in bytes. To mask a part of a text, this much must be seen around it. */
  readonly reach: number
  /** Returns the positions of secrets, in order and without overlaps. */
  find(text: Buffer): readonly Range[]
  /** Replaces each secret by `***`. */
  mask(text: string): string
}

interface Form {
  readonly text: string
  /** The number of neighbouring characters that hold some bits of the secret, too. */
  readonly before: 0 | 1
  readonly after: 0 | 1
}

export function createMasker(values: readonly string[]): Masker {
  const secrets = [...new Set(values.flatMap((value) => [value, ...value.split(/\r?\n/)]))]
    .filter((value) => value.length >= shortestSecret)
    .map((value) => Buffer.from(value))
  const inJson = secrets.map((secret) => Buffer.from(JSON.stringify(secret.toString()).slice(1, -1)))
  const plainForms = [...secrets, ...inJson].flatMap(piecesOf).map((piece) => exact(piece.toString('latin1')))
  const base64Forms = secrets.flatMap(piecesOf).flatMap(inBase64)
  const findPlain = createFinder(plainForms)
  const findDecoded = createFinder(plainForms.map(({ text }) => exact(text.replaceAll('+', ' '))))
  const findBase64 = createFinder(base64Forms)
  // A byte takes at most six as an escape. Base64 in lines has at most one line break for each character.
  const reach = Math.max(
    0,
    ...plainForms.map(({ text }) => text.length * longestEscape),
    ...base64Forms.map(({ text }) => text.length * 2),
  )

  const find: Masker['find'] = (bytes) => {
    if (secrets.length === 0) return []
    const found = [...findPlain.all(bytes), ...rangesIn(findBase64, unwrapped(bytes), bytes)]
    if (bytes.includes('\\')) found.push(...rangesIn(findPlain, unescaped(bytes), bytes))
    if (bytes.includes('%') || bytes.includes('+')) found.push(...rangesIn(findDecoded, urlDecoded(bytes), bytes))
    return merged(found)
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
function inBase64(secret: Buffer): Form[] {
  return ([0, 1, 2] as const).map((shift) => {
    const encoded = Buffer.concat([Buffer.alloc(shift), secret])
      .toString('base64')
      .replace(/=+$/, '')
    const isWhole = (shift + secret.length) % 3 === 0
    const text = encoded.slice(shift === 0 ? 0 : shift + 1, isWhole ? undefined : -1)
    return { text, before: shift === 0 ? 0 : 1, after: isWhole ? 0 : 1 }
  })
}

interface Finder {
  /** Returns every occurrence of every form. */
  all(bytes: Buffer): Range[]
  /** Returns the lengths of the forms that begin with `head`, and continue with the text from `at` on. */
  continuing(head: string, text: string, at: number): number[]
}

/** Finds forms in a decoded text, and returns their positions in the original one. */
function rangesIn(finder: Finder, decoded: Respelled, original: Buffer): Range[] {
  const { bytes, starts, ends } = decoded
  const found = finder.all(bytes).map(({ from, to }) => ({ from: starts[from] ?? 0, to: ends[to - 1] ?? 0 }))
  return [...found, ...rangesAfterEscapes(finder, decoded, original)]
}

/**
 * Finds forms that begin within what was decoded as an escape: in `%a7…` the percent sign and the `a` may be the end of other
 * text, and the 7 the first character of a secret.
 */
function rangesAfterEscapes(finder: Finder, { bytes, starts, ends }: Respelled, original: Buffer): Range[] {
  const found: Range[] = []
  const text = bytes.toString('latin1')
  for (let at = 0; at < bytes.length; at += 1) {
    const [start = 0, end = 0] = [starts[at], ends[at]]
    // The last byte of an escape, when that is a character of several bytes.
    if (end - start < 2 || starts[at + 1] === start) continue
    for (let from = start + 1; from < end; from += 1) {
      const head = original.toString('latin1', from, end)
      for (const length of finder.continuing(head, text, at + 1)) {
        found.push({ from, to: ends[at + length - head.length] ?? original.length })
      }
    }
  }
  return found
}

/**
 * Makes a finder, which goes over a text in one pass. An attacker may choose the text and the forms:
 * the work at one position does not grow with the number of forms, only with that of their different lengths.
 */
function createFinder(forms: readonly Form[]): Finder {
  const known = new Map(forms.map((form) => [form.text, form]))
  const lengths = new Map<string, Set<number>>()
  const mayBegin = new Uint8Array(0x10000)
  for (const text of known.keys()) {
    const prefix = text.slice(0, prefixLength)
    lengths.set(prefix, (lengths.get(prefix) ?? new Set()).add(text.length))
    mayBegin[hashAt(Buffer.from(prefix, 'latin1'), 0)] = 1
  }
  return {
    all(bytes) {
      const text = bytes.toString('latin1')
      const found: Range[] = []
      for (let at = 0; at + prefixLength <= bytes.length; at += 1) {
        if (mayBegin[hashAt(bytes, at)] === 0) continue
        for (const length of lengths.get(text.slice(at, at + prefixLength)) ?? []) {
          const form = known.get(text.slice(at, at + length))
          if (form === undefined) continue
          found.push({ from: Math.max(0, at - form.before), to: Math.min(bytes.length, at + length + form.after) })
        }
      }
      return found
    },
    continuing(head, text, at) {
      const beginsWith = (length: number) => head + text.slice(at, at + length - head.length)
      return [...(lengths.get(beginsWith(prefixLength)) ?? [])].filter((length) => known.has(beginsWith(length)))
    },
  }
}

/** Hashes four bytes. */
const hashAt = (bytes: Buffer, at: number): number =>
  ((bytes[at] ?? 0) ^ ((bytes[at + 1] ?? 0) << 3) ^ ((bytes[at + 2] ?? 0) << 6) ^ ((bytes[at + 3] ?? 0) << 8)) & 0xffff

function merged(ranges: Range[]): Range[] {
  const result: { from: number; to: number }[] = []
  for (const range of ranges.sort((a, b) => a.from - b.from)) {
    const last = result.at(-1)
    if (last !== undefined && range.from <= last.to) last.to = Math.max(last.to, range.to)
    else result.push({ ...range })
  }
  return result
}

const exact = (text: string): Form => ({ text, before: 0, after: 0 })
