import type { LogLine } from './log-line.ts'

/** A search in progress: the matching lines among those searched so far. */
export interface Search {
  /** The text to find, in lower case. */
  readonly text: string
  /** The number of the next line to search. */
  readonly next: number
  readonly matches: readonly Match[]
}

export interface Match {
  /** The number of the line, counted from the first line ever received. */
  readonly number: number
  readonly line: LogLine
}

export interface Lines {
  /** The number of the first line in `lines`. */
  readonly first: number
  readonly lines: readonly LogLine[]
}

/** Searches up to `max` further lines, and drops matches whose lines the log no longer holds. */
export function continueSearch({ text, next, matches }: Search, { first, lines }: Lines, max: number): Search {
  const from = Math.max(next, first)
  const batch = lines.slice(from - first, from - first + max)
  const kept = (matches[0]?.number ?? first) < first ? matches.filter(({ number }) => number >= first) : matches
  const found = batch.flatMap((line, index) =>
    line.text.toLowerCase().includes(text) ? [{ number: from + index, line }] : [],
  )
  return { text, next: from + batch.length, matches: found.length === 0 ? kept : [...kept, ...found] }
}
