import { execFile } from 'node:child_process'
import { startProcess } from '../../processes.ts'
import { findProgram } from '../programs.ts'
import { userNamespace } from './arguments.ts'
import type { FileCopies } from './copies.ts'
import { filterFile } from './filter.ts'
import { type SystemEntry, systemEntries } from './system.ts'
import { asRoot, findSystemV, limitSystemV, type SystemV } from './system-v.ts'

/** Bubblewrap as it is installed, and what it shows. */
export interface Sandbox {
  readonly program: string
  /** True for version 0.8 or newer, which limits folders in memory and keeps commands from making namespaces of their own. */
  readonly isModern: boolean
  /** True when it mounts folders that were opened before (version 0.11, and older ones that have it as a security fix). */
  readonly bindsDescriptors: boolean
  /** util-linux's program that gives up the user inside; `null` where the server is not root, and there is none to give up. */
  readonly setpriv: string | null
  /** Limits System V memory, semaphores and queues; `null` where that is not possible. */
  readonly systemV: SystemV | null
  /** Perl, as commands see it; it becomes another program some ten times as fast as Node. `null` where there is none. */
  readonly perl: string | null
  /** The system's files that commands can read. */
  readonly system: readonly SystemEntry[]
  /** Copies of some of them; `null` where each is mounted. */
  readonly copies: FileCopies | null
  /** The filter of system calls; `null` where there is none for this architecture. */
  readonly filter: string | null
}

/** A busy machine takes seconds. A trial that is given up means apps without a sandbox. */
const trialMs = 60_000

/**
 * Finds bubblewrap. Returns `null` where it is not installed, or the kernel lets this user make no namespaces; for root
 * also where it is older than 0.8, or `setpriv` is missing.
 */
export async function findSandbox(
  path: string,
  isRoot: boolean,
  copies: FileCopies | null = null,
): Promise<Sandbox | null> {
  const program = await findProgram('bwrap', path)
  const setpriv = isRoot ? await findProgram('setpriv', path) : null
  if (program === null || (isRoot && setpriv === null)) return null
  for (const isModern of isRoot ? [true] : [true, false]) {
    if (await runs(program, trialArguments(isModern, isRoot))) {
      const bindsDescriptors = (await helpOf(program)).includes('--ro-bind-fd')
      const [perl, system] = [await findInSystem('perl', path), await systemEntries()]
      const systemV = await triedSystemV(path, isRoot)
      return { program, isModern, bindsDescriptors, setpriv, systemV, perl, system, copies, filter: filterFile() }
    }
  }
  return null
}

async function triedSystemV(path: string, isRoot: boolean): Promise<SystemV | null> {
  const systemV = await findSystemV(path)
  if (systemV === null) return null
  const [program, ...args] = limitSystemV(systemV, isRoot ? [] : asRoot)
  return (await runs(program, [...args, '/bin/true'])) ? systemV : null
}

/** Finds a program that sandboxed commands see, too. */
async function findInSystem(name: string, path: string): Promise<string | null> {
  const inSystem = path.split(':').filter((folder) => /^\/(usr|bin|sbin)(\/|$)/.test(folder))
  return findProgram(name, inSystem.join(':'))
}

/** Returns bubblewrap's arguments that make everything that a sandbox is made of. */
export function trialArguments(isModern: boolean, isRoot: boolean): string[] {
  const size = isModern ? ['--perms', '1777', '--size', '4096', '--tmpfs', '/tmp'] : []
  const users = isRoot ? [] : userNamespace(isModern)
  const spaces = ['--unshare-pid', '--unshare-ipc', '--unshare-uts']
  return ['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', ...size, ...users, ...spaces, '--', '/bin/true']
}

function helpOf(program: string): Promise<string> {
  return new Promise((resolve) => {
    execFile(program, ['--help'], { env: {}, timeout: trialMs }, (error, stdout) =>
      resolve(error === null ? stdout : ''),
    )
  })
}

function runs(program: string, args: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => {
    startProcess(program, args, { stdio: 'ignore', env: {}, timeout: trialMs })
      .on('error', () => resolve(false))
      .on('close', (code) => resolve(code === 0))
  })
}
