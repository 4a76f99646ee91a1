import { randomUUID } from 'node:crypto'
import { chmod, type FileHandle, lstat, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ensurePrivateFolder, foldersIn, removeFolder } from '../../platform/disk/folders.ts'
import { volumeFiles, volumesIn } from '../../platform/disk/volumes.ts'
import { startProcess } from '../../platform/processes.ts'
import type { OsUser } from '../../platform/users.ts'
import type { Release, ReleaseRef } from '../runtime.ts'

/** All paths are absolute. */
export interface ReleasePaths {
  readonly directory: string
  /** The sources, and the output of the build. Every command starts here. */
  readonly source: string
  /** `HOME`. This folder and the next two belong to the app and outlive its releases. */
  readonly home: string
  /** `TMPDIR` */
  readonly temporary: string
  /** The file that names the programs of the release. Commands of the app do not see it. */
  readonly toolchain: string
  /** The files that the app sees as `/etc/passwd` and `/etc/group`. The app cannot write them. */
  readonly passwd: string
  readonly group: string
  /** The file that names the original build folders of copied files. Commands of the app do not see it. */
  readonly origins: string
  /** Downloads of earlier builds. Removable while no build of the app runs. */
  readonly cache: string
  readonly volumes: string
}

export interface LocalRelease extends Release {
  readonly paths: ReleasePaths
  readonly user: OsUser | null
  readonly origins: readonly string[]
}

export const appDirectory = (apps: string, appId: string): string => join(apps, appId)

export function pathsOf(apps: string, { id, appId }: ReleaseRef): ReleasePaths {
  const app = appDirectory(apps, appId)
  const directory = join(app, 'releases', id)
  return {
    directory,
    source: join(directory, 'source'),
    home: join(app, 'home'),
    temporary: join(app, 'tmp'),
    toolchain: join(app, 'toolchains', `${id}.json`),
    origins: join(app, 'origins', `${id}.json`),
    passwd: join(app, 'passwd'),
    group: join(app, 'group'),
    cache: join(app, 'cache'),
    volumes: volumesIn(app),
  }
}

/** Returns the uid for the commands of an app; `undefined` when no command has ever run. */
export async function ownerOf({ home }: Pick<ReleasePaths, 'home'>): Promise<number | undefined> {
  // The server owns the parent, so the app cannot put another user's folder there.
  return (await lstat(home).catch(() => undefined))?.uid
}

export async function listApps(apps: string): Promise<{ id: string; releases: string[] }[]> {
  return Promise.all(
    (await foldersIn(apps)).map(async (id) => ({ id, releases: await foldersIn(join(apps, id, 'releases')) })),
  )
}

/** Lists the build caches of all apps, also folders that do not exist yet. */
export async function appCacheFolders(apps: string): Promise<string[]> {
  return (await readdir(apps).catch(() => [])).map((id) => join(apps, id, 'cache'))
}

export function volumeFoldersOf({
  paths,
  volumes = {},
}: Pick<LocalRelease, 'paths' | 'volumes'>): Record<string, string> {
  return Object.fromEntries(Object.keys(volumes).map((name) => [name, volumeFiles(paths.volumes, name)]))
}

export async function makeSourceFolder({ directory, source }: ReleasePaths): Promise<void> {
  // The app's user may enter the folder but not list it. Each entry has its own owner.
  await mkdir(directory, { recursive: true, mode: 0o711 })
  try {
    await mkdir(source, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    await removeFolder(source)
    await mkdir(source, { mode: 0o700 })
  }
}

export async function giveSourceToUser({ user, paths }: LocalRelease, signal: AbortSignal): Promise<void> {
  if (user !== null) await giveToUser(paths.source, user, signal)
}

/** Gives a folder and its content to a user. Changes symbolic links themselves and never follows them. */
export function giveToUser(folder: string, { uid, gid }: OsUser, signal?: AbortSignal): Promise<void> {
  return run('chown', ['-R', '-h', '-P', '--', `${uid}:${gid}`, '.'], folder, signal)
}

export async function makeAppFolders(release: Pick<LocalRelease, 'user' | 'paths' | 'volumes'>): Promise<void> {
  const { user, paths } = release
  await ensurePrivateFolder(paths.home, user)
  await ensurePrivateFolder(paths.temporary, user)
  await writeAccounts(release)
  for (const name of Object.keys(release.volumes ?? {})) await makeVolume(volumeFiles(paths.volumes, name), user)
}

/** Makes a volume unless it exists. Gives a volume of containers to the user of the app. */
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

/** Opens a release to its app before the start. */
export async function openToApp({ directory }: ReleasePaths): Promise<void> {
  await chmod(directory, 0o711)
}

/** Closes a stopped release to its app: all releases of an app run as the same user. */
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

/** The user name that programs get from the system (`whoami`, `os.userInfo()`, ssh). */
const userName = 'app'

/**
 * Writes the files that the app sees as `/etc/passwd` and `/etc/group` in its sandboxes. The machine has no account for
 * the uid of an app, and many programs fail when the system does not know their user.
 */
async function writeAccounts({ user, paths }: Pick<LocalRelease, 'user' | 'paths'>): Promise<void> {
  if (user === null) return
  await replace(paths.passwd, passwd(user, paths))
  await replace(paths.group, group(user))
}

const passwd = ({ uid, gid }: OsUser, { home }: ReleasePaths): string =>
  lines([
    'root:x:0:0:root:/root:/bin/sh',
    `${userName}:x:${uid}:${gid}:${userName}:${home}:/bin/sh`,
    'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin',
  ])

const group = ({ gid }: OsUser): string => lines(['root:x:0:', `${userName}:x:${gid}:`, 'nogroup:x:65534:'])

const lines = (each: readonly string[]): string => `${each.join('\n')}\n`

/** Keeps a file that already has the text: running programs have it open. */
async function replace(path: string, text: string): Promise<void> {
  if ((await readFile(path, 'utf8').catch(() => null)) === text) return
  const fresh = `${path}.${randomUUID()}`
  await writeFile(fresh, text)
  await chmod(fresh, 0o644)
  await rename(fresh, path)
}

/** Gives a log to the user who writes it: programs reopen `/dev/stdout` and `/dev/stderr`. */
export async function giveOutputToUser(output: FileHandle, user: OsUser | null): Promise<void> {
  if (user !== null) await output.chown(user.uid, user.gid)
}
