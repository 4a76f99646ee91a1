import { spawn } from 'node:child_process'
import type { ReleasePaths } from '../release/layout.ts'
import type { Kind } from './limits.ts'
import { findProgram } from './programs.ts'

/** Bubblewrap as it is installed. */
export interface Sandbox {
  readonly program: string
  /** True for version 0.8 or newer, which limits folders in memory and keeps commands from making namespaces of their own. */
  readonly isModern: boolean
}

/** Folders of the system that programs need, as far as they exist. */
const systemFolders = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/etc', '/opt', '/sys/devices/system/cpu']

/** Folders in memory, for programs that insist on them; `TMPDIR` is on the disk. */
const memoryFolders = ['/dev/shm', '/tmp', '/run']
const mostMemoryFolderBytes = 64 * 1024 * 1024

/**
 * Returns bubblewrap's arguments for a command of a release: it reads the system, writes its own folders and sees its
 * own processes alone. None of the server's files exists in there. The network is the machine's.
 *
 * @param options.programs folders with Node, npm and the static server
 * @param options.dataDirectory hidden even inside a folder of the system
 */
export function sandboxArguments(
  paths: ReleasePaths,
  kind: Kind,
  options: {
    readonly isModern: boolean
    readonly programs: readonly string[]
    readonly dataDirectory: string
  },
): string[] {
  const { isModern, programs, dataDirectory } = options
  const own = [paths.directory, paths.home, paths.temporary]
  if (kind === 'build') own.push(paths.cache)
  const size = isModern ? ['--size', String(mostMemoryFolderBytes)] : []
  return [
    ...systemFolders.flatMap((folder) => ['--ro-bind-try', folder, folder]),
    ...['--dev', '/dev', '--proc', '/proc'],
    ...memoryFolders.flatMap((folder) => [...size, '--tmpfs', folder]),
    // On many systems /etc/resolv.conf is a link into this folder.
    ...['--ro-bind-try', '/run/systemd/resolve', '/run/systemd/resolve'],
    ...['--tmpfs', dataDirectory],
    ...programs.flatMap((folder) => ['--ro-bind-try', folder, folder]),
    ...own.flatMap((folder) => ['--bind', folder, folder]),
    // The folders that bubblewrap has made as mount points are in memory, too: nobody may fill them.
    ...[dataDirectory, '/dev', '/'].flatMap((folder) => ['--remount-ro', folder]),
    ...(isModern ? ['--unshare-user', '--disable-userns'] : ['--unshare-user-try']),
    ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--cap-drop', 'ALL'],
    ...['--chdir', paths.source, '--'],
  ]
}

/** Finds bubblewrap. Returns `null` where it is not installed or the kernel lets this user make no namespaces. */
export async function findSandbox(path: string): Promise<Sandbox | null> {
  const program = await findProgram('bwrap', path)
  if (program === null) return null
  for (const isModern of [true, false]) {
    const modern = isModern ? ['--size', '4096', '--tmpfs', '/tmp', '--unshare-user', '--disable-userns'] : []
    const usual = ['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--unshare-user-try', '--unshare-pid']
    if (await runs(program, [...usual, ...modern, '--', '/bin/true'])) return { program, isModern }
  }
  return null
}

function runs(program: string, args: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => {
    spawn(program, args, { stdio: 'ignore', env: {}, timeout: 5_000 })
      .on('error', () => resolve(false))
      .on('close', (code) => resolve(code === 0))
  })
}
