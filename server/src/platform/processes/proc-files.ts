import { closeSync, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { ShortageError } from './shortage.ts'

/*
 * Reads of Linux's /proc (proc(5)). A process may vanish between any two reads; that is never an error, and the read
 * returns `null`. The reads are synchronous because /proc is in memory, not on a disk.
 *
 * A read that fails for want of a descriptor says nothing about a process: taken for its end, a healthy app would be
 * stopped. So one descriptor is set aside for these reads; when even that is taken, they throw a `ShortageError`.
 */

export const read = (path: string): string | null => attempt(() => readFileSync(path, 'latin1'))
export const readLink = (path: string): string | null => attempt(() => readlinkSync(path))
export const list = (path: string): string[] | null => attempt(() => readdirSync(path))

const codes: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOMEM']

/** The descriptor that is set aside; `null` before the first read and while there was none to take. */
let spare: number | null = null

function attempt<T>(look: () => T): T | null {
  spare ??= setAside()
  try {
    return look()
  } catch (error) {
    if (!isWant(error)) return null
  }
  if (spare !== null) closeSync(spare)
  spare = null
  try {
    return look()
  } catch (error) {
    if (isWant(error)) throw new ShortageError('/proc cannot be read now', { cause: error })
    return null
  } finally {
    spare = setAside()
  }
}

function setAside(): number | null {
  try {
    return openSync('/', 'r')
  } catch {
    return null
  }
}

const isWant = (error: unknown): boolean => error instanceof Error && 'code' in error && codes.includes(error.code)
