import { closeSync, fstatSync, openSync, renameSync, writeSync } from 'node:fs'
import type { Log } from '../protocol/log.ts'

/** A larger file becomes `<file>.1`, in place of the previous one. */
const MAX_BYTES = 10 * 1024 * 1024

/** The numeric levels of the server's log. */
const levels = { info: 30, warn: 40, error: 50 }

export function createLog(write: (line: string) => void): Log {
  const at = (level: number) => (fields: object, message: string) => {
    const time = new Date().toISOString()
    write(`${JSON.stringify({ level, time, pid: process.pid, ...fields, msg: message })}\n`)
  }
  return { info: at(levels.info), warn: at(levels.warn), error: at(levels.error) }
}

/** Returns a function that appends lines to a file. Write errors are ignored: a full disk must not stop traffic. */
export function openLogFile(path: string): (line: string) => void {
  let file = openSync(path, 'a', 0o600)
  let size = fstatSync(file).size
  return (line) => {
    try {
      size += writeSync(file, line)
      if (size < MAX_BYTES) return
      renameSync(path, `${path}.1`)
      closeSync(file)
      file = openSync(path, 'a', 0o600)
      size = fstatSync(file).size
    } catch {}
  }
}
