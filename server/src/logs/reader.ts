import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { ownTurn } from '../platform/turns.ts'
import type { LogExtent } from './extent.ts'
import { type Masker, maskRanges } from './masking.ts'
import type { Range } from './pattern-search.ts'
import { marksBetween, positionSince, readEnds } from './times.ts'

export interface LogLine {
  /** When the line was written, in milliseconds of Unix time; `null` when unknown. */
  readonly at: number | null
  /** When the line was seen at the latest, in the same unit, to order the lines of several logs; 0 when never noted. */
  readonly noted: number
  readonly text: string
  readonly end: number
}

export interface LogPart {
  readonly lines: readonly LogLine[]
  readonly next: number
}

const chunk = 64 * 1024
const lineFeed = 0x0a

/** Finds the last `count` lines written at `since` or later: their position and their number. */
export async function findStart(
  path: string,
  extent: LogExtent,
  wanted: { readonly count: number; readonly since?: number | undefined },
): Promise<{ position: number; lines: number }> {
  const since = wanted.since === undefined ? extent.start : await startOfLinesSince(path, extent, wanted.since)
  return withLog(path, { position: extent.end, lines: 0 }, async (file) => {
    // The log may start within a line after its beginning was freed. That fragment is dropped.
    const kept = { ...extent, startsLine: extent.start === 0 }
    if (since <= extent.start) return lastLines(file, kept, wanted.count)
    // A line that ends after `since` may begin before it.
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
 * Reads whole lines from a position on, at most 64 KB, each cut at 4 KB. Skips freed parts, and the rest of a line
 * whose beginning was returned before: a line of any length counts as one.
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
    // Secrets may begin before this part and end after it.
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
  /** The end of the text, without the line feed. */
  readonly to: number
  readonly end: number
}

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
  // The rest of a line whose beginning was returned before, or a part of a line longer than this part.
  if (isRest) return { lines, next: to }
  if (!options.isFinal && !(options.isFull && lines.length === 0)) return { lines, next: start }
  return { lines: [...lines, { from: start, to, end: to }], next: to }
}

/** The longest line in bytes. Longer lines are cut when they are read. */
export const longestLine = 4 * 1024

const carriageReturn = 0x0d

/** Returns a line with its secrets masked, cut at 4 KB between characters, and with control characters replaced. */
function lineText(bytes: Buffer, secrets: readonly Range[], line: Range): string {
  const { from } = line
  const to = line.to > from && bytes[line.to - 1] === carriageReturn ? line.to - 1 : line.to
  if (to - from <= longestLine) return escapeControls(maskRanges(bytes, secrets, { from, to }))
  let end = from + longestLine
  // Continuation bytes of UTF-8 begin with the bits 10.
  while (end > from + longestLine - 4 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return `${escapeControls(maskRanges(bytes, secrets, { from, to: end }))}…`
}

// The first alternative matches colours and other renditions (ECMA-48, 8.3.117), the only sequences that are kept.
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern finds control characters.
const control = /\x1b\[[0-9;:]*m|[\x00-\x08\x0a-\x1f\x7f-\x9f]/g

/**
 * Replaces control characters except colours by their symbols (`␛`), so that a log cannot move a terminal's cursor or
 * set its title or clipboard, and no character is lost.
 */
export function escapeControls(text: string): string {
  return text.replace(control, (found) => {
    if (found.length > 1) return found
    const code = found.charCodeAt(0)
    if (code === 0x7f) return '␡'
    // An 8-bit control abbreviates ESC and a letter (ECMA-48, 5.3).
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : `␛${String.fromCharCode(code - 0x40)}`
  })
}

/**
 * Opens a log as the output of a process. Only the owner can read the file. New output begins on a new line.
 *
 * @throws Error when the path is not a plain file: an app could have put a link to a file of the server there
 */
export async function openLog(path: string): Promise<FileHandle> {
  const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(path, flags, 0o600)
  try {
    const stats = await file.stat()
    if (!stats.isFile() || stats.nlink !== 1) throw new Error(`${path} is not a plain file`)
    const last = stats.size > 0 ? await readAt(file, stats.size - 1, stats.size) : null
    if (last !== null && last[0] !== lineFeed) await file.write('\n')
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Calls `use` with the open log. Returns `none` when there is no plain file. */
async function withLog<Result>(
  path: string,
  none: Result,
  use: (file: FileHandle) => Promise<Result>,
): Promise<Result> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return none
  try {
    return (await file.stat()).isFile() ? await use(file) : none
  } finally {
    await file.close()
  }
}

/** Reads the bytes from one position to another; fewer bytes at the end of the file. */
async function readAt(file: FileHandle, from: number, to: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.max(0, to - from)), 0, Math.max(0, to - from), from)
  return buffer.subarray(0, bytesRead)
}

/**
 * Finds the last `count` lines before `end`: their position and their number. Reads nothing before `start`.
 *
 * @param part.startsLine true when a line begins at `start`
 */
async function lastLines(
  file: FileHandle,
  part: { readonly start: number; readonly end: number; readonly startsLine: boolean },
  count: number,
): Promise<{ position: number; lines: number }> {
  const { start, end } = part
  if (count <= 0 || end <= start) return { position: end, lines: 0 }
  let lines = 0
  for (let to = end; to > start; ) {
    const from = Math.max(start, to - chunk)
    const bytes = await readAt(file, from, to)
    for (let at = bytes.length - 1; at >= 0; at -= 1) {
      // The final line feed belongs to the last line.
      if (bytes[at] !== lineFeed || from + at === end - 1) continue
      lines += 1
      if (lines === count) return { position: from + at + 1, lines }
    }
    to = from
  }
  return { position: start, lines: part.startsLine ? lines + 1 : lines }
}
