import { closeSync, openSync, readSync } from 'node:fs'
import { isShortage } from './shortage.ts'
import { isRunning, type ProcessIdentity, parseStat } from './stat.ts'

/** A process that is asked again and again whether it has ended. */
export interface ProcessExit {
  hasEnded(): boolean
  close(): void
}

const buffer = Buffer.alloc(1024)

/**
 * Holds the process's file in /proc open: a read of it is a fraction of opening it each time, and it never shows another
 * process that gets the same pid (reading fails with ESRCH then).
 */
export function openExit(identity: ProcessIdentity): ProcessExit {
  let file: number | undefined
  const close = () => {
    if (file !== undefined) closeSync(file)
    file = undefined
  }
  return {
    hasEnded() {
      try {
        // Opened here: without a free descriptor, the next call tries again.
        file ??= openSync(`/proc/${identity.pid}/stat`, 'r')
        const stat = parseStat(buffer.toString('latin1', 0, readSync(file, buffer, 0, buffer.length, 0)))
        return stat === null || stat.ended || stat.startTime !== identity.startTime
      } catch {
        close()
        return hasCertainlyEnded(identity)
      }
    },
    close,
  }
}

/** When /proc cannot be read now, a later look tells. */
function hasCertainlyEnded(identity: ProcessIdentity): boolean {
  try {
    return !isRunning(identity)
  } catch (error) {
    if (isShortage(error)) return false
    throw error
  }
}
