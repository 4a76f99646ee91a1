import { chmod, lstat, mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ensurePrivateFolder, removeFolder } from '../../../platform/disk/folders.ts'
import { volumeFiles } from '../../../platform/disk/volumes.ts'
import { startProcess } from '../../../platform/processes.ts'
import type { OsUser } from '../../../platform/users.ts'
import { writeAccounts } from './accounts.ts'
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

/** Gives the sources to the release's user. */
export async function giveSourceToUser({ user, paths }: LocalRelease, signal: AbortSignal): Promise<void> {
  if (user !== null) await giveToUser(paths.source, user, signal)
}

/** Gives a folder and all in it to a user. Symbolic links are changed themselves and never followed. */
export function giveToUser(folder: string, { uid, gid }: OsUser, signal?: AbortSignal): Promise<void> {
  return run('chown', ['-R', '-h', '-P', '--', `${uid}:${gid}`, '.'], folder, signal)
}

/** Makes what an app has besides its releases. */
export async function makeAppFolders(release: Pick<LocalRelease, 'user' | 'paths' | 'volumes'>): Promise<void> {
  const { user, paths } = release
  await ensurePrivateFolder(paths.home, user)
  await ensurePrivateFolder(paths.temporary, user)
  await writeAccounts(release)
  for (const name of Object.keys(release.volumes ?? {})) await makeVolume(volumeFiles(paths.volumes, name), user)
}

/** Makes a volume, unless it exists, and makes one that was of containers the app's. */
async function makeVolume(files: string, user: OsUser | null): Promise<void> {
  const folder = dirname(files)
  await mkdir(folder, { recursive: true })
  await ensurePrivateFolder(files, user)
  if (user !== null && (await lstat(files)).uid !== user.uid) {
    await giveToUser(files, user)
    await chmod(files, 0o700)
  }
  for (const path of [dirname(folder), folder]) await chmod(path, 0o711)
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

function run(program: string, args: readonly string[], cwd: string, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    startProcess(program, args, { cwd, stdio: 'ignore', signal })
      .on('error', reject)
      .on('close', (code) => (code === 0 ? resolve() : reject(new Error(`${program} ended with code ${code}`))))
  })
}
