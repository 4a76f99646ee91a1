import type { Stats } from 'node:fs'
import { lstat, truncate } from 'node:fs/promises'
import { fallocate } from '../platform/disk/free-space.ts'
import { appendMark, type Mark, markBytes, readAllMarks, readEnds, replaceMarks } from './times.ts'

/** The readable bytes of a log. Positions count from the first byte ever written, including freed bytes. */
export interface LogExtent {
  readonly start: number
  readonly end: number
  /** Marks the last lines until a recorder has noted them. */
  readonly unmarked?: Mark
}

export interface LogState {
  readonly start: number
  readonly last: Mark
  readonly count: number
}

export interface LogCap {
  /** The most disk space of a log with its times. Beyond it, the older half is freed. */
  readonly mostBytes: number
  /** Frees the first bytes of a file. The other bytes keep their positions. */
  readonly free: (path: string, bytes: number) => Promise<unknown>
}

/** File systems limit the size of a file (16 TB on ext4). A log beyond this limit is emptied and starts again. */
const farthest = 2 ** 40
const blockSize = 4096
const recordedWithinMs = 2_000
/** Times stand still until the clock catches up when a time service has set it back by less than this. */
const steppedMs = 1_000
/**
 * A correct clock never shows an earlier time. The clock of some machines stops while they are off, and starts early
 * until the network sets it.
 */
const earliest = Date.parse('2026-01-01T00:00:00Z')
/** At most this many times one check trims a log that grows faster than it is trimmed. */
const mostRounds = 5

const empty: LogState = { start: 0, last: { end: 0, at: 0, isExact: false }, count: 0 }

/** Reads the marks of a log. Returns `null` when the log has no marks. */
export async function loadState(path: string): Promise<LogState | null> {
  const ends = await readEnds(path)
  return ends === null ? null : { start: ends.first.end, last: ends.last, count: ends.count }
}

/** Reads the extent of a log that another process may record, and changes nothing. */
export async function readExtent(path: string): Promise<LogExtent> {
  const [known, stats] = await Promise.all([loadState(path), lstat(path).catch(() => null)])
  const end = stats?.isFile() ? stats.size : 0
  // An app has truncated its log; its positions start at 0 again.
  const { start, last } = known === null || end < known.last.end ? empty : known
  if (stats === null || end === last.end) return { start, end }
  // A recorder looks more often than this, so the lines that it has not noted yet are new.
  const isExact = isClockSet() && Date.now() - stats.mtimeMs < recordedWithinMs
  return { start, end, unmarked: { end, at: timeAfter(last, stats), isExact } }
}

/**
 * Notes the growth of a log, and keeps the log within its cap.
 *
 * @param known the state after the last check, if there was one
 * @param isRecorded true when the log was checked a moment ago, so that the time of new lines is known
 * @param rounds how often to trim a log again that grows at the same time
 */
export async function noteGrowth(
  path: string,
  known: LogState | null,
  isRecorded: boolean,
  cap: LogCap,
  rounds = mostRounds,
): Promise<LogState> {
  const stats = await lstat(path).catch(() => null)
  if (stats === null || !stats.isFile()) return empty
  const marked = known !== null && known.count > 0 ? known : await loadState(path)
  // An app has truncated its log; its positions start at 0 again.
  const before = marked === null || stats.size < marked.last.end ? await begin(path) : marked
  const state = stats.size === before.last.end ? before : await mark(path, before, stats, isRecorded, cap)
  return allocated(stats) > cap.mostBytes ? keepWithin(path, state, cap, rounds) : state
}

const allocated = ({ blocks }: Pick<Stats, 'blocks'>): number => blocks * 512

/**
 * Empties a log that takes more space than its lines: an app can reserve space beyond the end, or write into freed
 * space. Lines written during the trimming are trimmed first in another round, because the last lines matter most.
 */
async function keepWithin(path: string, state: LogState, cap: LogCap, rounds: number): Promise<LogState> {
  const stats = await lstat(path).catch(() => null)
  // A program may have written this much since the log was trimmed.
  if (stats === null || allocated(stats) <= 2 * cap.mostBytes) return state
  if (stats.size > state.last.end && rounds > 0) return noteGrowth(path, state, true, cap, rounds - 1)
  await truncate(path, 0)
  return begin(path)
}

async function mark(
  path: string,
  before: LogState,
  stats: Pick<Stats, 'size' | 'mtimeMs'>,
  isRecorded: boolean,
  cap: LogCap,
): Promise<LogState> {
  if (isAhead(before.last)) await clampMarks(path)
  // Without a recorder, the lines may be older.
  const last = { end: stats.size, at: timeAfter(before.last, stats), isExact: isRecorded && isClockSet() }
  await appendMark(path, last)
  const grown = { start: before.start, last, count: before.count + 1 }
  return sizeOf(grown) > cap.mostBytes ? trim(path, grown, cap) : grown
}

/** Returns the time of lines after a mark. Times never decrease, except after a mark from a clock that was ahead. */
function timeAfter(last: Mark, { mtimeMs }: Pick<Stats, 'mtimeMs'>): number {
  const at = Math.min(mtimeMs, Date.now())
  return isAhead(last) ? at : Math.max(last.at, at)
}

const isClockSet = (): boolean => Date.now() >= earliest

/** While the clock is not set, trust the mark and not the clock. */
const isAhead = ({ at }: Mark): boolean => isClockSet() && at > Date.now() + steppedMs

/** Replaces times in the future by the current time. How much older the lines are is unknown. */
async function clampMarks(path: string): Promise<void> {
  const now = Date.now()
  const marks = await readAllMarks(path)
  await replaceMarks(
    path,
    marks.map((each) => (each.at > now ? { ...each, at: now, isExact: false } : each)),
  )
}

const sizeOf = ({ start, last, count }: LogState): number => last.end - start + count * markBytes

async function begin(path: string): Promise<LogState> {
  const first = { end: 0, at: 0, isExact: false }
  await replaceMarks(path, [first])
  return { start: 0, last: first, count: 1 }
}

async function trim(path: string, { last }: LogState, { mostBytes, free }: LogCap): Promise<LogState> {
  const marks = await readAllMarks(path)
  let kept = marks.length - 1
  const fits = (index: number) =>
    last.end - (marks[index - 1]?.end ?? 0) + (marks.length - index + 1) * markBytes <= mostBytes / 2
  while (kept > 1 && fits(kept - 1)) kept -= 1
  const before = marks[kept - 1] ?? last
  const first = { ...before, end: Math.max(before.end, last.end - Math.floor(mostBytes / 2)), isExact: false }
  const rest = marks.slice(kept)
  try {
    if (first.end > farthest) throw new Error('the positions are used up')
    await replaceMarks(path, [first, ...rest])
    const freed = first.end - (first.end % blockSize)
    if (freed > 0) await free(path, freed)
    return { start: first.end, last, count: rest.length + 1 }
  } catch {
    // This file system cannot free a part of a file. Old lines matter less than a full disk.
    await truncate(path, 0)
    return begin(path)
  }
}

/** Frees the first bytes of a file without effect on programs that append to it. */
export function punchHole(path: string, bytes: number): Promise<void> {
  return fallocate('--punch-hole', '--offset', '0', '--length', String(bytes), path)
}
