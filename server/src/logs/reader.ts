import { ownTurn } from '../platform/turns.ts'
import type { LogExtent } from './extent.ts'
import { lineText } from './line-text.ts'
import { lastLines, readAt, withLog } from './log-files.ts'
import type { Masker } from './masking.ts'
import { marksBetween, positionSince, readEnds } from './times.ts'

/** One line of a log, ready to be shown. */
export interface LogLine {
  /** The time of writing in milliseconds of Unix time; `null` where it is not known. */
  readonly at: number | null
  /** The time when the line was seen at the latest, in the same unit, which orders the lines of several logs; 0 where none was noted. */
  readonly noted: number
  readonly text: string
  /** The position where the next line begins, in bytes. */
  readonly end: number
}

/** Some lines of a log, and the position to continue at. */
export interface LogPart {
  readonly lines: readonly LogLine[]
  readonly next: number
}

const chunk = 64 * 1024
const lineFeed = 0x0a

/** Finds where the last `count` lines that were written at `since` or later begin, and how many there are. */
export async function findStart(
  path: string,
  extent: LogExtent,
  wanted: { readonly count: number; readonly since?: number | undefined },
): Promise<{ position: number; lines: number }> {
  const since = wanted.since === undefined ? extent.start : await startOfLinesSince(path, extent, wanted.since)
  return withLog(path, { position: extent.end, lines: 0 }, async (file) => {
    // After its beginning was freed, the log may start mid-line; that fragment is dropped.
    const kept = { ...extent, startsLine: extent.start === 0 }
    if (since <= extent.start) return lastLines(file, kept, wanted.count)
    // A line that was finished at that time may have begun before.
    const { position } = await lastLines(file, { ...kept, end: since + 1 }, 1)
    return lastLines(file, { start: Math.min(position, extent.end), end: extent.end, startsLine: true }, wanted.count)
  })
}

async function startOfLinesSince(path: string, { end, unmarked }: LogExtent, since: number): Promise<number> {
  const noted = await positionSince(path, since)
  if (noted !== null) return noted
  return unmarked !== undefined && unmarked.at >= since ? ((await readEnds(path))?.last.end ?? 0) : end
}

/**
 * Reads the whole lines from a position on, as many as 64 KB hold, each cut at 4 KB; none when there is nothing new. A
 * position within a line means that the beginning of the line was returned before: the rest of it is skipped, so that a
 * line of any length counts as one. Freed parts of the log are skipped, too.
 *
 * @param wanted.isFinal true when the log has ended, so that a last line without a line feed counts
 */
export function readLines(
  path: string,
  extent: LogExtent,
  wanted: { readonly from: number; readonly masker: Masker; readonly isFinal: boolean },
): Promise<LogPart> {
  const { masker } = wanted
  const from = wanted.from > extent.end ? extent.start : Math.max(wanted.from, extent.start)
  return withLog(path, { lines: [], next: from }, async (file) => {
    const to = Math.min(from + chunk, extent.end)
    if (to <= from) return { lines: [], next: from }
    // Secrets may begin before the requested part, and end after it.
    const windowFrom = Math.max(extent.start, from - Math.max(1, masker.reach))
    const window = await readAt(file, windowFrom, Math.min(to + masker.reach, extent.end))
    const [partFrom, partTo] = [from - windowFrom, Math.min(to - windowFrom, window.length)]
    const isWithinLine = from > 0 && (partFrom === 0 || window[partFrom - 1] !== lineFeed)
    const { lines, next } = split(window, partFrom, partTo, {
      isWithinLine,
      isFinal: wanted.isFinal && to === extent.end,
      isFull: to === from + chunk,
    })
    const noted = await marksBetween(path, from, windowFrom + next)
    const marks = extent.unmarked === undefined ? noted : [...noted, extent.unmarked]
    if (lines.length > 0) await ownTurn()
    const secrets = lines.length === 0 ? [] : masker.find(window)
    let mark = 0
    return {
      lines: lines.map((line) => {
        const end = windowFrom + line.end
        while ((marks[mark]?.end ?? Infinity) < end) mark += 1
        const { at, isExact } = marks[mark] ?? { at: 0, isExact: false }
        return { at: isExact ? at : null, noted: at, text: lineText(window, secrets, line), end }
      }),
      next: windowFrom + next,
    }
  })
}

interface Line {
  readonly from: number
  /** Without the line feed. */
  readonly to: number
  readonly end: number
}

/** Returns the lines of a part of a text, and the position of the first line after them. */
function split(
  text: Buffer,
  from: number,
  to: number,
  options: { readonly isWithinLine: boolean; readonly isFinal: boolean; readonly isFull: boolean },
): { lines: Line[]; next: number } {
  const lines: Line[] = []
  let start = from
  let isRest = options.isWithinLine
  for (let at = text.indexOf(lineFeed, start); at !== -1 && at < to; at = text.indexOf(lineFeed, start)) {
    if (!isRest) lines.push({ from: start, to: at, end: at + 1 })
    isRest = false
    start = at + 1
  }
  if (start === to) return { lines, next: start }
  // The rest of a line whose beginning was returned before, or a line that fills the whole part.
  if (isRest) return { lines, next: to }
  if (!options.isFinal && !(options.isFull && lines.length === 0)) return { lines, next: start }
  return { lines: [...lines, { from: start, to, end: to }], next: to }
}
