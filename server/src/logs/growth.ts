import { type FSWatcher, watch } from 'node:fs'

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
