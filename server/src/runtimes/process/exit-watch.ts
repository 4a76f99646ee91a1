import { openExit, type ProcessExit, type ProcessIdentity } from '../../platform/processes.ts'

/** Notices the end of processes that are not children of this server. */
export interface ExitWatch {
  /** Calls `onExit` once, soon after the process has ended. Returns a function that ends the watch. */
  add(process: ProcessIdentity, onExit: () => void): () => void
}

interface Watched {
  readonly exit: ProcessExit
  readonly onExit: () => void
}

/** Nothing tells Node of the end of a process that it has not started, so each is asked; that takes some microseconds. */
const intervalMs = 500

export function createExitWatch(): ExitWatch {
  const watched = new Set<Watched>()
  let timer: NodeJS.Timeout | undefined

  const remove = (entry: Watched): void => {
    if (!watched.delete(entry)) return
    entry.exit.close()
    if (watched.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
  const check = (entry: Watched): void => {
    if (!watched.has(entry) || !entry.exit.hasEnded()) return
    remove(entry)
    entry.onExit()
  }

  return {
    add(process, onExit) {
      const entry = { exit: openExit(process), onExit }
      watched.add(entry)
      timer ??= setInterval(() => {
        for (const each of [...watched]) check(each)
      }, intervalMs).unref()
      // The process may have ended already. Checked in a later turn, when the caller has the function that ends the watch.
      setImmediate(() => check(entry))
      return () => remove(entry)
    },
  }
}
