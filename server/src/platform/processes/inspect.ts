import { execFile } from 'node:child_process'
import { readFile, readlink } from 'node:fs/promises'
import { basename } from 'node:path'
import { promisify } from 'node:util'
import { parseStat } from './stat.ts'

export interface ProcessInfo {
  /** The short name of the executable. */
  readonly command: string
  readonly commandLine: string
  /** The working directory, or null where the system does not report it. */
  readonly directory: string | null
  /** An opaque text. Together with the pid it identifies a process, because pids are used again. */
  readonly startedAt: string
}

/** Returns facts about a process, or null when it is gone; a zombie counts as gone. */
export async function inspectProcess(pid: number): Promise<ProcessInfo | null> {
  return process.platform === 'linux' ? inspectThroughProc(pid) : inspectThroughPs(pid)
}

async function inspectThroughProc(pid: number): Promise<ProcessInfo | null> {
  try {
    const [status, commandLine, directory] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8'),
      readFile(`/proc/${pid}/cmdline`, 'utf8'),
      // Root in a container may lack the capability to read this link.
      readlink(`/proc/${pid}/cwd`).catch(() => null),
    ])
    const stat = parseStat(status)
    if (stat === null || stat.ended) return null
    return {
      command: stat.command,
      commandLine: commandLine.replaceAll('\0', ' ').trimEnd(),
      directory,
      startedAt: stat.startTime,
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESRCH') return null
    throw error
  }
}

async function inspectThroughPs(pid: number): Promise<ProcessInfo | null> {
  const columns = ['-ww', '-o', 'state=,lstart=,ucomm=,args=', '-p', String(pid)]
  const { stdout } = await promisify(execFile)('ps', columns, { env: { LC_ALL: 'C' } }).catch((error) => {
    // ps exits with status 1 and prints nothing when there is no such process.
    if (error.code === 1 && error.stdout === '') return { stdout: '' }
    throw error
  })
  return parsePs(stdout)
}

/** Parses one line of `ps -o state=,lstart=,ucomm=,args=`. */
export function parsePs(line: string): ProcessInfo | null {
  const match = /^\s*(\S+)\s+(\S+\s+\S+\s+\d+\s+[\d:]+\s+\d+)\s+(\S+)\s+(.*)$/.exec(line.trimEnd())
  if (match === null) return null
  const [, state = '', startedAt = '', command = '', commandLine = ''] = match
  return state.startsWith('Z') ? null : { command: basename(command), commandLine, directory: null, startedAt }
}

/** True when the system knows the pid, zombies included. PostgreSQL checks the same. */
export function pidIsTaken(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
