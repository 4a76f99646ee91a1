/** A text to find, in bytes as Latin-1. */
export interface Pattern {
  readonly text: string
  /** The number of neighbouring characters that also belong to the pattern. */
  readonly before: 0 | 1
  readonly after: 0 | 1
}

/** A part of a text in bytes; `to` is exclusive. */
export interface Range {
  readonly from: number
  readonly to: number
}

export interface Finder {
  /** Returns the parts of a text that match patterns, in order and without overlaps. */
  all(bytes: Buffer): Range[]
  /** Returns the length of the longest pattern that begins with `head` and continues at `at`; 0 for no pattern. */
  continuing(head: Buffer, bytes: Buffer, at: number): number
}

/** Random, so that chosen patterns cannot make the hash table slow. */
const multiplier = Math.floor(Math.random() * 0x7fff_ffff) | 1

/**
 * Searches a text in one pass (A. Aho and M. Corasick, "Efficient String Matching", 1975). An attacker may choose text
 * and patterns, so the work for a byte must not depend on them. A state is the longest beginning of a pattern that ends
 * at the current byte; state 0 is empty.
 */
export const createFinder = (given: readonly Pattern[]): Finder => atOnce(findersSteps(given))

/** The states between two pauses: some milliseconds. */
const statesAtOnce = 10_000

/** Creates finders with pauses for other work, because a large finder takes a hundred milliseconds. */
export function* findersSteps(given: readonly Pattern[]): Generator<void, Finder> {
  const known = new Map(given.map((pattern) => [pattern.text, pattern]))
  const patterns = [...known.values()]
  const most = 1 + patterns.reduce((sum, { text }) => sum + text.length, 0)
  const edges = createEdges(most)
  const parents = new Int32Array(most)
  const bytesOf = new Uint8Array(most)
  const depths = new Uint16Array(most)
  const isPattern = new Uint8Array(most)
  /** The bytes of a pattern before and after the end of a state; 0 where no pattern ends. */
  const back = new Uint16Array(most)
  const after = new Uint8Array(most)
  let count = 1
  for (const pattern of patterns) {
    let state = 0
    for (const byte of Buffer.from(pattern.text, 'latin1')) {
      let next = edges.get(state, byte)
      if (next === 0) {
        next = count
        count += 1
        edges.set(state, byte, next)
        parents[next] = state
        bytesOf[next] = byte
        depths[next] = (depths[state] ?? 0) + 1
      }
      state = next
    }
    if (count % statesAtOnce < pattern.text.length) yield
    isPattern[state] = 1
    back[state] = Math.max(back[state] ?? 0, pattern.text.length + pattern.before)
    after[state] = Math.max(after[state] ?? 0, pattern.after)
  }

  /** For each state, the longest other state at its end. */
  const shorter = new Int32Array(count)
  const step = (from: number, byte: number): number => {
    for (let state = from; ; state = shorter[state] ?? 0) {
      const next = edges.get(state, byte)
      if (next !== 0 || state === 0) return next
    }
  }
  let linked = 0
  for (const state of byDepth(depths.subarray(0, count))) {
    linked += 1
    if (linked % statesAtOnce === 0) yield
    const parent = parents[state] ?? 0
    const suffix = parent === 0 ? 0 : step(shorter[parent] ?? 0, bytesOf[state] ?? 0)
    shorter[state] = suffix
    back[state] = Math.max(back[state] ?? 0, back[suffix] ?? 0)
    after[state] = Math.max(after[state] ?? 0, after[suffix] ?? 0)
  }

  return {
    all(bytes) {
      const found: Range[] = []
      let state = 0
      for (let at = 0; at < bytes.length; at += 1) {
        state = step(state, bytes[at] ?? 0)
        const covered = back[state] ?? 0
        if (covered === 0) continue
        const to = Math.min(bytes.length, at + 1 + (after[state] ?? 0))
        addRange(found, { from: Math.max(0, at + 1 - covered), to })
      }
      return found
    },
    continuing(head, bytes, at) {
      let [state, longest] = [0, 0]
      for (let read = 0; ; read += 1) {
        const byte = read < head.length ? head[read] : bytes[at + read - head.length]
        if (byte === undefined) return longest
        state = edges.get(state, byte)
        if (state === 0) return longest
        if (isPattern[state] === 1) longest = read + 1
      }
    },
  }
}

export function atOnce<Result>(steps: Generator<void, Result>): Result {
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** Adds a range that ends last, but may begin before others. */
function addRange(ranges: Range[], { from, to }: Range): void {
  let begin = from
  for (let last = ranges.at(-1); last !== undefined && last.to >= from; last = ranges.at(-1)) {
    begin = Math.min(begin, last.from)
    ranges.pop()
  }
  ranges.push({ from: begin, to })
}

function byDepth(depths: Uint16Array): Int32Array {
  const deepest = depths.reduce((most, depth) => Math.max(most, depth), 0)
  const begins = new Int32Array(deepest + 2)
  for (const depth of depths.subarray(1)) begins[depth + 1] = (begins[depth + 1] ?? 0) + 1
  for (let depth = 1; depth < begins.length; depth += 1) begins[depth] = (begins[depth] ?? 0) + (begins[depth - 1] ?? 0)
  const sorted = new Int32Array(depths.length - 1)
  for (let state = 1; state < depths.length; state += 1) {
    const depth = depths[state] ?? 0
    const at = begins[depth] ?? 0
    sorted[at] = state
    begins[depth] = at + 1
  }
  return sorted
}

interface Edges {
  /** Returns the state that a byte leads to; 0 for no state. */
  get(state: number, byte: number): number
  set(state: number, byte: number, to: number): void
}

/** A hash table of transitions, at most half full, with linear probing. */
function createEdges(states: number): Edges {
  const bits = Math.ceil(Math.log2(states * 2)) + 1
  const mask = 2 ** bits - 1
  const keys = new Int32Array(2 ** bits)
  const targets = new Int32Array(2 ** bits)
  const placeOf = (key: number): number => {
    let place = Math.imul(key, multiplier) >>> (32 - bits)
    while (keys[place] !== 0 && keys[place] !== key) place = (place + 1) & mask
    return place
  }
  // Keys are never 0, because 0 marks a free slot.
  const keyOf = (state: number, byte: number): number => state * 256 + byte + 1
  return {
    get: (state, byte) => targets[placeOf(keyOf(state, byte))] ?? 0,
    set(state, byte, to) {
      const key = keyOf(state, byte)
      const place = placeOf(key)
      keys[place] = key
      targets[place] = to
    },
  }
}
