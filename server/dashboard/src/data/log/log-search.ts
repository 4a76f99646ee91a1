import type { LogLine } from './log-line.ts'

/** What is known of a search: the lines that hold a text, as far as it has looked. */
export interface Search {
  /** In lower case. */
  readonly text: string
  /** The number of the line that it looks at next. */
  readonly next: number
  readonly hits: readonly Hit[]
}

export interface Hit {
  /** Of the line, counted from the first that was ever read. */
  readonly number: number
  readonly line: LogLine
}

export interface Lines {
  /** The number of the first of them. */
  readonly first: number
  readonly lines: readonly LogLine[]
}

/** Looks at some further lines; hits that the log no longer holds are forgotten. */
export function searchOn({ text, next, hits }: Search, { first, lines }: Lines, most: number): Search {
  const from = Math.max(next, first)
  const further = lines.slice(from - first, from - first + most)
  const kept = (hits[0]?.number ?? first) < first ? hits.filter(({ number }) => number >= first) : hits
  const found = further.flatMap((line, index) =>
    line.text.toLowerCase().includes(text) ? [{ number: from + index, line }] : [],
  )
  return { text, next: from + further.length, hits: found.length === 0 ? kept : [...kept, ...found] }
}
