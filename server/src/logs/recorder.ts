import { type FSWatcher, watch } from 'node:fs'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import { type LogCap, type LogExtent, type LogState, noteGrowth, punchHole, readExtent } from './extent.ts'

/**
 * Notes when log files grow, and frees space beyond their cap. Programs write the files directly, and never wait for
 * the recorder.
 */
export interface Recorder {
  /** Notes new lines, so that every line up to `end` has its time if it is known. Never rejects. */
  look(path: string): Promise<LogExtent>
  /**
   * Returns the readable extent of a log. Notes the times of new lines only if this process records the log, because
   * two recorders would damage each other's marks. Never rejects.
   */
  extent(path: string): Promise<LogExtent>
  /** Checks a log several times a second while it grows, until `ended` settles, and once more then. */
  record(path: string, ended: Promise<unknown>): Promise<void>
  /** Stops recording at once, because another server records from now on. */
  release(): void
}

const intervalMs = 250

interface Recorded {
  readonly growth: GrowthWatch
  state: LogState | null
}

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
    // On a full disk the log can still be read, without new times.
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
 * Decides when a log is checked: at every tick while it grows. A quiet log waits for a report of the system about a
 * write. One report is enough, so that a program that prints much causes no event for each line.
 */
export interface GrowthWatch {
  tick(): void
  close(): void
}

/** A log is quiet after this many checks without growth. */
const quietLooks = 4
/**
 * The ticks between two checks of a quiet log: of a log that the system cannot watch, and of a log that it watches,
 * because it may miss a write.
 */
const unwatchedTicks = 4
const watchedTicks = 240

/** @param look checks the log, and resolves to true when it has grown */
export function createGrowthWatch(path: string, look: () => Promise<boolean>): GrowthWatch {
  /** The ticks since the log grew; for a quiet log, since its last check. */
  let ticks = 0
  let isLooking = false
  let isClosed = false
  /** Set for a quiet log; `null` when the system cannot watch it. */
  let watcher: FSWatcher | null | undefined

  const becomeBusy = () => {
    watcher?.close()
    watcher = undefined
    ticks = 0
  }
  const lookAgain = async (): Promise<void> => {
    if (isLooking || isClosed) return
    isLooking = true
    // The disk is full, or the log is being removed. The next check tries again.
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
        // Needed also after the watch has begun: the log may have grown before.
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

/**
 * Calls `changed` when the file is written to. Returns `null` when the system cannot watch the file, or has reached its
 * limit of watches.
 */
function watchFile(path: string, changed: () => void): FSWatcher | null {
  try {
    return watch(path, { persistent: false }, changed).on('error', () => undefined)
  } catch {
    return null
  }
}
