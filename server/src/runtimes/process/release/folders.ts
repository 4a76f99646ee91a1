import { spawn } from 'node:child_process'
import { chmod, mkdir } from 'node:fs/promises'
import { ensurePrivateFolder, removeFolder } from '../../../platform/disk/folders.ts'
import type { LocalRelease, ReleasePaths } from './layout.ts'

/** Makes the folder of a release with an empty folder for its sources. */
export async function makeSourceFolder({ directory, source }: ReleasePaths): Promise<void> {
  // The app's user may enter but not list it; everything inside has its own owner.
  await mkdir(directory, { recursive: true, mode: 0o711 })
  try {
    await mkdir(source, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    await removeFolder(source)
    await mkdir(source, { mode: 0o700 })
  }
}

/** Gives the sources to the release's user. Symbolic links are changed themselves and never followed. */
export async function giveSourceToUser({ user, paths }: LocalRelease, signal: AbortSignal): Promise<void> {
  if (user === null) return
  await run('chown', ['-R', '-h', '-P', '--', `${user.uid}:${user.gid}`, '.'], paths.source, signal)
}

/** Makes the folders that an app has besides its releases. */
export async function makeAppFolders({ user, paths }: LocalRelease): Promise<void> {
  await ensurePrivateFolder(paths.home, user)
  await ensurePrivateFolder(paths.temporary, user)
}

/** Lets the app into a release that is about to run. */
export async function openToApp({ directory }: ReleasePaths): Promise<void> {
  await chmod(directory, 0o711)
}

/** Keeps the app out of a release at rest: all releases of an app run as the same user. */
export async function closeToApp({ directory }: ReleasePaths): Promise<void> {
  await chmod(directory, 0o700).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
}

function run(program: string, args: readonly string[], cwd: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    spawn(program, args, { cwd, stdio: 'ignore', signal })
      .on('error', reject)
      .on('close', (code) => (code === 0 ? resolve() : reject(new Error(`${program} ended with code ${code}`))))
  })
}
