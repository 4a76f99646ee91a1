import { spawn } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { join } from 'node:path'
import type { Release } from './runner.ts'

/** Folders of the system that programs need, where they are there. */
const systemFolders = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/etc', '/opt', '/sys/devices/system/cpu']

/**
 * The arguments of bubblewrap for a command of a release: the system to read, its own folders to write, processes of
 * its own alone. Nothing of the server's files exists in there. The network is the machine's.
 *
 * @param programs folders with Node, npm and the static server
 */
export function sandboxArguments(
  release: Pick<Release, 'directory' | 'appDirectory'>,
  options: { readonly programs: readonly string[]; readonly cwd: string },
): string[] {
  const own = [release.directory, join(release.appDirectory, 'home'), join(release.appDirectory, 'tmp')]
  return [
    ...systemFolders.flatMap((folder) => ['--ro-bind-try', folder, folder]),
    ...['--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp', '--tmpfs', '/run'],
    // Where names are looked up on many systems: /etc/resolv.conf is a link to there.
    ...['--ro-bind-try', '/run/systemd/resolve', '/run/systemd/resolve'],
    ...options.programs.flatMap((folder) => ['--ro-bind-try', folder, folder]),
    ...own.flatMap((folder) => ['--bind', folder, folder]),
    ...['--unshare-user-try', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--cap-drop', 'ALL'],
    ...['--chdir', options.cwd, '--'],
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
export async function findSandbox(path: string): Promise<string | null> {
  const bwrap = await findProgram('bwrap', path)
  if (bwrap === null) return null
  const args = ['--ro-bind', '/', '/', '--proc', '/proc', '--unshare-user-try', '--unshare-pid', '--', '/bin/true']
  return new Promise((found) => {
    spawn(bwrap, args, { stdio: 'ignore', env: {}, timeout: 5_000 })
      .on('error', () => found(null))
      .on('close', (code) => found(code === 0 ? bwrap : null))
  })
}
