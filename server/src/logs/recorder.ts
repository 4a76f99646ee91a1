import { type FSWatcher, type Stats, watch } from 'node:fs'
import { lstat, truncate } from 'node:fs/promises'
import { fallocate } from '../platform/disk/free-space.ts'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import { appendMark, type Mark, markBytes, readAllMarks, readEnds, replaceMarks } from './times.ts'

/**
 * Records files that programs write by themselves: notes when they have grown, and frees space beyond their cap. A
 * program never waits for the recorder, nor the recorder for a program.
 */
export interface Recorder {
  /** Notes new lines of a log, so that every line up to `end` has its time as far as it is known. Never rejects. */
  look(path: string): Promise<LogExtent>
  /**
   * Returns what can be read of a log, with the times of its lines as far as they are known. Notes them only when this
   * process records the log: another one may do so, and two would spoil each other's marks. Never rejects.
   */
  extent(path: string): Promise<LogExtent>
  /** Looks at a log several times a second while it grows, until `ended` settles, and once more then. */
  record(path: string, ended: Promise<unknown>): Promise<void>
  /** Ends all recording at once: another server records from now on. */
  release(): void
}

const intervalMs = 250

interface Recorded {
  readonly growth: GrowthWatch
  state: LogState | null
}

/** @param options.mostBytes the most that a log may take on the disk, its times included */
export function createRecorder(options: Pick<LogCap, 'mostBytes'> & Partial<Pick<LogCap, 'free'>>): Recorder {
  const cap: LogCap = { free: punchHole, ...options }
  const recorded = new Map<string, Recorded>()
  const oneAtATime = createKeyedLock()
  let timer: NodeJS.Timeout | undefined

  const look = (path: string): Promise<LogState> =>
    oneAtATime(path, async () => {
      const known = recorded.get(path)?.state ?? null
      const state = await noteGrowth(path, known, known !== null, cap)
      const own = recorded.get(path)
      if (own !== undefined) own.state = state
      return state
    })

  const hasGrown = async (path: string): Promise<boolean> => {
    const before = recorded.get(path)?.state
    return (await look(path)) !== before
  }

  const remove = (path: string, own: Recorded): void => {
    own.growth.close()
    if (recorded.get(path) === own) recorded.delete(path)
    if (recorded.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  const lookOrRead = async (path: string): Promise<LogExtent> => {
    const state = await look(path).catch(() => null)
    // A full disk has no room for times; the log can be read all the same.
    return state === null ? readExtent(path) : { start: state.start, end: state.last.end }
  }

  return {
    look: lookOrRead,
    extent: (path) => (recorded.has(path) ? lookOrRead(path) : readExtent(path)),

    release() {
      for (const { growth } of recorded.values()) growth.close()
      recorded.clear()
      clearInterval(timer)
      timer = undefined
    },

    async record(path, ended) {
      const state = recorded.get(path)?.state ?? (await look(path).catch(() => null))
      const own: Recorded = { growth: createGrowthWatch(path, () => hasGrown(path)), state }
      recorded.set(path, own)
      timer ??= setInterval(() => {
        for (const { growth } of recorded.values()) growth.tick()
      }, intervalMs).unref()
      const finish = async () => {
        await look(path).catch(() => undefined)
        remove(path, own)
      }
      void ended.then(finish, finish)
    },
  }
}

/**
 * Decides when a log is looked at: at every tick while it grows. While it is quiet, the system tells when it is written to;
 * one write tells enough, so that a program that prints much is not followed by an event for each line.
 */
export interface GrowthWatch {
  /** Called several times a second. */
  tick(): void
  close(): void
}

/** After this many looks without growth a log is quiet. */
const quietLooks = 4
/** Ticks from one look at a quiet log to the next: where the system cannot tell, and otherwise in case that it did not. */
const unwatchedTicks = 4
const watchedTicks = 240

/** @param look looks at the log, and resolves to true when it has grown */
export function createGrowthWatch(path: string, look: () => Promise<boolean>): GrowthWatch {
  /** Since the log grew last, or since it was looked at last while it is quiet. */
  let ticks = 0
  let isLooking = false
  let isClosed = false
  /** While the log is quiet: `null` where the system cannot watch it. */
  let watcher: FSWatcher | null | undefined

  const becomeBusy = () => {
    watcher?.close()
    watcher = undefined
    ticks = 0
  }
  const lookAgain = async (): Promise<void> => {
    if (isLooking || isClosed) return
    isLooking = true
    // The disk is full, or the log is being removed. The next look tries again.
    if (await look().catch(() => false)) becomeBusy()
    isLooking = false
  }
  const becomeQuiet = () => {
    ticks = 0
    watcher = watchFile(path, () => {
      if (watcher !== undefined) becomeBusy()
      void lookAgain()
    })
  }

  return {
    tick() {
      ticks += 1
      if (isLooking) return
      if (watcher === undefined) {
        if (ticks >= quietLooks) becomeQuiet()
        // Also when it is watched from now on: it may have grown before.
        void lookAgain()
      } else if (ticks >= (watcher === null ? unwatchedTicks : watchedTicks)) {
        ticks = 0
        void lookAgain()
      }
    },
    close() {
      isClosed = true
      watcher?.close()
    },
  }
}

/** Calls `changed` when the file is written to. Returns `null` where the system cannot watch it, or watches too many. */
function watchFile(path: string, changed: () => void): FSWatcher | null {
  try {
    return watch(path, { persistent: false }, changed).on('error', () => undefined)
  } catch {
    return null
  }
}

/** The readable part of a log, in bytes. Positions count from the first byte ever written, including freed ones. */
export interface LogExtent {
  readonly start: number
  readonly end: number
  /** The mark that the last lines would have, when no recorder has noted them yet. */
  readonly unmarked?: Mark
}

/** The extent of a log, with its last mark and the number of its marks. */
export interface LogState {
  readonly start: number
  readonly last: Mark
  readonly count: number
}

export interface LogCap {
  /** The most that a log may take on the disk, its times included; beyond it the older half is freed. */
  readonly mostBytes: number
  /** Frees the space of the first bytes of a file and leaves its other bytes at their positions. */
  readonly free: (path: string, bytes: number) => Promise<unknown>
}

/** File systems limit the size of a file (16 TB on ext4); a log with positions beyond this is started again. */
const farthest = 2 ** 40
const blockSize = 4096
const recordedWithinMs = 2_000
/** A clock that is set back by less than this, as time services do, makes times stand still for so long. */
const steppedMs = 1_000
/** No right clock shows a time before this. A machine whose clock stops while it is off starts with such a time until the network sets it. */
const earliest = Date.parse('2026-01-01T00:00:00Z')
/** How often one look trims a log that grows faster than it is trimmed. */
const mostRounds = 5

const empty: LogState = { start: 0, last: { end: 0, at: 0, isExact: false }, count: 0 }

/** Reads the marks of a log. Returns `null` when it has none. */
export async function loadState(path: string): Promise<LogState | null> {
  const ends = await readEnds(path)
  return ends === null ? null : { start: ends.first.end, last: ends.last, count: ends.count }
}

/** Reads the extent of a log that another process may record, and changes nothing. */
export async function readExtent(path: string): Promise<LogExtent> {
  const [known, stats] = await Promise.all([loadState(path), lstat(path).catch(() => null)])
  const end = stats?.isFile() ? stats.size : 0
  // An app can truncate its log; then its positions start at 0 again.
  const { start, last } = known === null || end < known.last.end ? empty : known
  if (stats === null || end === last.end) return { start, end }
  // A recorder looks more often than this, so that new lines which it has not noted are not older.
  const isExact = isClockSet() && Date.now() - stats.mtimeMs < recordedWithinMs
  return { start, end, unmarked: { end, at: timeAfter(last, stats), isExact } }
}

/**
 * Notes that a log has grown, if it has, and keeps it within its cap.
 *
 * @param known the state after the last look, if there was one
 * @param isRecorded true when the log was checked a moment ago, so that the time of the new lines is known
 * @param rounds how often it is trimmed again when it grows at the same time
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
  // An app can truncate its log; then its positions start at 0 again.
  const before = marked === null || stats.size < marked.last.end ? await begin(path) : marked
  const state = stats.size === before.last.end ? before : await mark(path, before, stats, isRecorded, cap)
  return allocated(stats) > cap.mostBytes ? keepWithin(path, state, cap, rounds) : state
}

const allocated = ({ blocks }: Pick<Stats, 'blocks'>): number => blocks * 512

/**
 * Empties a log that takes more space than its lines do: an app can reserve space beyond the end, or fill what was freed. Lines that a
 * program wrote while the log was trimmed are trimmed in another round, because the last lines matter most.
 */
async function keepWithin(path: string, state: LogState, cap: LogCap, rounds: number): Promise<LogState> {
  const stats = await lstat(path).catch(() => null)
  // A program may have written as much again since the log was trimmed.
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
  // Otherwise the lines were written some time before.
  const last = { end: stats.size, at: timeAfter(before.last, stats), isExact: isRecorded && isClockSet() }
  await appendMark(path, last)
  const grown = { start: before.start, last, count: before.count + 1 }
  return sizeOf(grown) > cap.mostBytes ? trim(path, grown, cap) : grown
}

/** Returns the time of lines after a mark. Times never go back, but for a mark that was made while the clock was ahead. */
function timeAfter(last: Mark, { mtimeMs }: Pick<Stats, 'mtimeMs'>): number {
  const at = Math.min(mtimeMs, Date.now())
  return isAhead(last) ? at : Math.max(last.at, at)
}

const isClockSet = (): boolean => Date.now() >= earliest

/** While the clock is not set, the time of a mark is right, and that of the clock is not. */
const isAhead = ({ at }: Mark): boolean => isClockSet() && at > Date.now() + steppedMs

/** Moves times that have not come yet to this moment: the lines are older, and nobody knows how much. */
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
    // Not every file system can free a part of a file. Losing old lines is better than a full disk.
    await truncate(path, 0)
    return begin(path)
  }
}

/** Frees the first bytes of a file: the hole takes no space, and programs that append to the file notice nothing. */
export function punchHole(path: string, bytes: number): Promise<void> {
  return fallocate('--punch-hole', '--offset', '0', '--length', String(bytes), path)
}
