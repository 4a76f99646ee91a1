import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { assetFile } from '../package-files.ts'
import { startProcess } from '../processes.ts'
import { findProgram } from '../programs.ts'
import { type FileCopies, type SystemEntry, systemEntries, userNamespace } from './arguments.ts'

/** Bubblewrap, the programs that it needs, and the files that it shows. */
export interface Sandbox {
  readonly program: string
  /** True for version 0.8 or newer, which limits folders in memory and prevents commands from making namespaces. */
  readonly isModern: boolean
  /** True when it can mount a folder by its descriptor (version 0.11, and older versions with the security fix). */
  readonly bindsDescriptors: boolean
  /** util-linux's program that gives up the user inside; `null` when the server is not root. */
  readonly setpriv: string | null
  /** Limits System V memory, semaphores and queues; `null` where that is not possible. */
  readonly systemV: SystemV | null
  readonly system: readonly SystemEntry[]
  /** Copies of some of these files; `null` when each file is mounted. */
  readonly copies: FileCopies | null
  /** The file with the filter of system calls; `null` when there is none for this architecture. */
  readonly filter: string | null
}

/** A trial takes seconds on a busy machine. After a timeout, apps run without a sandbox. */
const trialMs = 60_000

/**
 * Finds bubblewrap. Returns `null` when it is not installed, or when the kernel forbids this user to make namespaces.
 * For root, also returns `null` when it is older than 0.8, or when `setpriv` is missing.
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
      const system = await systemEntries()
      const systemV = await triedSystemV(path, isRoot)
      return { program, isModern, bindsDescriptors, setpriv, systemV, system, copies, filter: filterFile() }
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

/** Returns arguments for bubblewrap that try every feature of a sandbox. */
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

/**
 * Returns the file with the filter of system calls for this architecture; `null` when there is none. The filter is
 * compiled by `scripts/seccomp/compile.py`, and denies what Docker's default profile denies.
 */
function filterFile(): string | null {
  const file = assetFile(`seccomp/${process.arch}.bpf`)
  return process.platform === 'linux' && existsSync(file) ? file : null
}

interface SystemV {
  readonly unshare: string
  readonly sh: string
}

/**
 * The pages of memory (64 MiB, with pages of 4 KiB), the semaphores as in `/proc/sys/kernel/sem`, and the queues of 16
 * KiB. The kernel's default limits for a namespace exceed all memory, and this memory can outlive its processes: where
 * no control group counts the memory of the kernel, nothing would count it.
 */
const limits = { shmall: '16384', sem: '250 32000 500 128', msgmni: '128' }

/** Its arguments are its only input. */
const script = `echo "$1" > /proc/sys/kernel/shmall && echo "$2" > /proc/sys/kernel/sem &&
echo "$3" > /proc/sys/kernel/msgmni || exit
shift 3
exec "$@"`

/** Finds the programs. Returns `null` where one of them is missing. */
async function findSystemV(path: string): Promise<SystemV | null> {
  const [unshare, sh] = [await findProgram('unshare', path), await findProgram('sh', path)]
  return unshare === null || sh === null ? null : { unshare, sh }
}

/** Arguments of `unshare` for a user namespace in which the caller is root. */
const asRoot: readonly string[] = ['--user', '--map-root-user']

/**
 * Returns the words before a command that run it in a separate namespace with limits for System V memory, semaphores
 * and queues. They need the rights of root, on the machine or in a user namespace.
 */
export function limitSystemV({ unshare, sh }: SystemV, options: readonly string[] = []): [string, ...string[]] {
  return [unshare, '--ipc', ...options, '--', sh, '-c', script, 'sh', limits.shmall, limits.sem, limits.msgmni]
}
