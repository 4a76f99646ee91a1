import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/*
 * Reads of Linux's /proc (proc(5)). A process may vanish between any two reads; that is never an error, and the read
 * returns `null`. The reads are synchronous because /proc is in memory, not on a disk.
 */

export function read(path: string): string | null {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return null
  }
}

export function readLink(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    return null
  }
}

export function list(path: string): string[] | null {
  try {
    return readdirSync(path)
  } catch {
    return null
  }
}
