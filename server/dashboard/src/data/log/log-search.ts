import { type LogLevel, plainText } from './log-level.ts'
import type { LogLine, LogStream } from './log-line.ts'

/** The lines to show; absent conditions hold for all. */
export interface LogFilter {
  /** The text to find, in lower case. */
  readonly text: string
  readonly stream?: LogStream | undefined
  /** A process type or an instance, such as `worker` or `worker.2`. */
  readonly process?: string | undefined
  /** The least serious level. */
  readonly level?: Exclude<LogLevel, 'info'> | undefined
}

/** A search in progress: the matching lines among those searched so far. */
export interface Search {
  readonly filter: LogFilter
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

/** True when a filter leaves lines out. */
export const isFiltering = ({ text, stream, process, level }: LogFilter): boolean =>
  text !== '' || stream !== undefined || process !== undefined || level !== undefined

function fits(line: LogLine, { text, stream, process, level }: LogFilter): boolean {
  // The marks of releases stay when the lines of an instance are shown.
  if (line.isMark) return text === '' && level === undefined
  if (stream !== undefined && line.stream !== stream) return false
  if (process !== undefined && line.process !== process && !line.process?.startsWith(`${process}.`)) return false
  if (level !== undefined && line.level !== 'error' && line.level !== level) return false
  return text === '' || plainText(line.text).toLowerCase().includes(text)
}

/** Searches up to `max` further lines, and drops matches whose lines the log no longer holds. */
export function continueSearch({ filter, next, matches }: Search, { first, lines }: Lines, max: number): Search {
  const from = Math.max(next, first)
  const batch = lines.slice(from - first, from - first + max)
  const kept = (matches[0]?.number ?? first) < first ? matches.filter(({ number }) => number >= first) : matches
  const found = batch.flatMap((line, index) => (fits(line, filter) ? [{ number: from + index, line }] : []))
  return { filter, next: from + batch.length, matches: found.length === 0 ? kept : [...kept, ...found] }
}
