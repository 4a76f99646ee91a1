import type { LogLine, LogPart } from '../../../logs/reader.ts'

/** The log that a line is from: `build`, or the instance that printed it, such as `worker.2`. */
export type LogSource = string

export interface SourceLine {
  readonly source: LogSource
  readonly line: LogLine
}

/** The part of one log that was read from a position on. */
export interface SourcePart {
  readonly source: LogSource
  readonly from: number
  readonly part: LogPart
}

/**
 * Puts the lines of several logs in the order in which they were noted, those of one time in the order of the logs. A log of
 * which more may come holds back the later lines of the others: these are read again. Also returns where each log goes on.
 */
export function mergeLines(parts: readonly SourcePart[]): {
  readonly lines: readonly SourceLine[]
  readonly next: Readonly<Record<LogSource, number>>
} {
  const timed = parts.map((each) => ({ ...each, lines: withTimes(each.part) }))
  const moved = timed.filter(({ from, part }) => part.next !== from)
  const limit = Math.min(...moved.map(({ lines }) => lines.at(-1)?.noted ?? -Infinity))
  const next: Record<LogSource, number> = {}
  const merged: (SourceLine & { readonly noted: number })[] = []
  for (const { source, from, part, lines } of timed) {
    const count = lines.findIndex(({ noted }) => noted > limit)
    const taken = count === -1 ? lines : lines.slice(0, count)
    next[source] = count === -1 ? part.next : (taken.at(-1)?.line.end ?? from)
    for (const { line, noted } of taken) merged.push({ source, line, noted })
  }
  return { lines: merged.sort((a, b) => a.noted - b.noted), next }
}

/** The times of lines never go back within a log: one that was not noted came after the one before it. */
function withTimes({ lines }: LogPart): { readonly line: LogLine; readonly noted: number }[] {
  let last = 0
  return lines.map((line) => {
    last = Math.max(last, line.noted)
    return { line, noted: last }
  })
}
