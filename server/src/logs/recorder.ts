import { lstat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import { type LogCap, type LogExtent, type LogState, loadState, noteGrowth, punchHole } from './extent.ts'

/**
 * Records files that programs write by themselves: notes when they have grown, and frees space beyond their cap. A
 * program never waits for the recorder, nor the recorder for a program.
 */
export interface Recorder {
  /** Notes new lines of a log, so that every line up to `end` has its time as far as it is known. Never rejects. */
  look(path: string): Promise<LogExtent>
  /**
   * Returns the extent of a log, up to lines whose times are known. It may be recorded here, on another server, or not at
   * all. Never rejects, and changes nothing of a log that is not recorded here.
   */
  view(path: string): Promise<LogExtent>
  /** Looks at a log several times a second until `ended` settles, and once more then. */
  record(path: string, ended: Promise<unknown>): Promise<void>
  /** Ends all recording at once. */
  release(): void
}

const intervalMs = 250
/** Another server that records a log has noted its growth after this time. Then times are not known, or nobody records it. */
const notedMs = 1_500
const notedPollMs = 50
/** After this many checks without growth a log is checked this many times less often; its mtime tells when it last grew. */
const quietLooks = 4

interface Recorded {
  looks: number
  isBusy: boolean
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

  const remove = (path: string, own: Recorded): void => {
    if (recorded.get(path) === own) recorded.delete(path)
    if (recorded.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  const lookNow = async (path: string): Promise<LogExtent> => {
    const state = await look(path).catch(() => null)
    // A full disk has no room for times; the log can be read all the same.
    return state === null ? (await readExtent(path)).extent : { start: state.start, end: state.last.end }
  }

  return {
    look: lookNow,

    view: (path) => (recorded.has(path) ? lookNow(path) : notedExtent(path)),

    release() {
      recorded.clear()
      clearInterval(timer)
      timer = undefined
    },

    async record(path, ended) {
      const state = recorded.get(path)?.state ?? (await look(path).catch(() => null))
      const own: Recorded = { looks: 0, isBusy: false, state }
      recorded.set(path, own)
      timer ??= setInterval(() => {
        for (const [each, entry] of recorded) void lookAgain(entry, () => look(each))
      }, intervalMs).unref()
      const finish = async () => {
        if (recorded.get(path) === own) await look(path).catch(() => undefined)
        remove(path, own)
      }
      void ended.then(finish, finish)
    },
  }
}

/** Reads how far a log can be read, and whether the times of all of it are noted. */
async function readExtent(path: string): Promise<{ extent: LogExtent; isNoted: boolean; grewAt: number }> {
  // The file before its marks: marks that are missing then were not noted yet.
  const stats = await lstat(path).catch(() => null)
  const known = await loadState(path)
  const end = stats?.isFile() ? stats.size : 0
  const isNoted = end === 0 || (known !== null && known.last.end >= end)
  return { extent: { start: known?.start ?? 0, end }, isNoted, grewAt: stats?.mtimeMs ?? 0 }
}

/** Waits for the recorder of another server to note what was printed lately. */
async function notedExtent(path: string): Promise<LogExtent> {
  const { extent, isNoted, grewAt } = await readExtent(path)
  const until = performance.now() + Math.min(notedMs, notedMs - (Date.now() - grewAt))
  let noted = isNoted
  while (!noted && performance.now() < until) {
    await sleep(notedPollMs)
    noted = ((await loadState(path))?.last.end ?? 0) >= extent.end
  }
  // Its beginning may have been freed meanwhile.
  return { start: (await loadState(path))?.start ?? extent.start, end: extent.end }
}

async function lookAgain(own: Recorded, look: () => Promise<LogState>): Promise<void> {
  own.looks += 1
  if (own.isBusy || (own.looks > quietLooks && own.looks % quietLooks !== 0)) return
  own.isBusy = true
  const before = own.state
  try {
    if ((await look()) !== before) own.looks = 0
  } catch {
    // The disk is full, or the log is being removed. The next look tries again.
  } finally {
    own.isBusy = false
  }
}
