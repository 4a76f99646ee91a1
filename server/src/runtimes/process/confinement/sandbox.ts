import { spawn } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { join } from 'node:path'
import type { Release } from '../runtime.ts'
import { cacheOf, homeOf, temporaryFolderOf } from './environment.ts'
import type { Kind } from './limits.ts'

/** Folders of the system that programs need, where they are there. */
const systemFolders = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/etc', '/opt', '/sys/devices/system/cpu']

/** Bubblewrap as it is installed. */
export interface Sandbox {
  readonly program: string
  /** Whether it is 0.8 or newer: it limits what is kept in memory, and no command makes namespaces of its own in there. */
  readonly isModern: boolean
}

/** Folders that are kept in memory, for programs that insist on them; `TMPDIR` is on the disk. */
const memoryFolders = ['/dev/shm', '/tmp', '/run']
const mostMemoryFolderBytes = 64 * 1024 * 1024

/**
 * The arguments of bubblewrap for a command of a release: the system to read, its own folders to write, processes of
 * its own alone. Nothing of the server's files exists in there. The network is the machine's.
 *
 * @param options.programs folders with Node, npm and the static server
 * @param options.dataDirectory hidden also where it lies in a folder of the system
 */
export function sandboxArguments(
  release: Pick<Release, 'directory' | 'appDirectory'>,
  kind: Kind,
  options: {
    readonly isModern: boolean
    readonly programs: readonly string[]
    readonly dataDirectory: string
    readonly cwd: string
  },
): string[] {
  const { isModern, programs, dataDirectory, cwd } = options
  const own = [release.directory, homeOf(release), temporaryFolderOf(release)]
  if (kind === 'build') own.push(cacheOf(release))
  const size = isModern ? ['--size', String(mostMemoryFolderBytes)] : []
  return [
    ...systemFolders.flatMap((folder) => ['--ro-bind-try', folder, folder]),
    ...['--dev', '/dev', '--proc', '/proc'],
    ...memoryFolders.flatMap((folder) => [...size, '--tmpfs', folder]),
    // Where names are looked up on many systems: /etc/resolv.conf is a link to there.
    ...['--ro-bind-try', '/run/systemd/resolve', '/run/systemd/resolve'],
    ...['--tmpfs', dataDirectory],
    ...programs.flatMap((folder) => ['--ro-bind-try', folder, folder]),
    ...own.flatMap((folder) => ['--bind', folder, folder]),
    // What bubblewrap has made to mount all this in is memory, too.
    ...[dataDirectory, '/dev', '/'].flatMap((folder) => ['--remount-ro', folder]),
    ...(isModern ? ['--unshare-user', '--disable-userns'] : ['--unshare-user-try']),
    ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--cap-drop', 'ALL'],
    ...['--chdir', cwd, '--'],
  ]
}

/** The file of a program on PATH; `null` when there is none. */
export async function findProgram(name: string, path: string): Promise<string | null> {
  for (const folder of path.split(':').filter((each) => each.startsWith('/'))) {
    const file = join(folder, name)
    const runs = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (runs) return file
  }
  return null
}

/** Bubblewrap, where it is installed and the kernel lets this user make namespaces; else `null`. */
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
  return new Promise((done) => {
    spawn(program, args, { stdio: 'ignore', env: {}, timeout: 5_000 })
      .on('error', () => done(false))
      .on('close', (code) => done(code === 0))
  })
}
