import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { foldersIn } from '../../../platform/disk/folders.ts'
import { volumeFiles, volumesIn } from '../../../platform/disk/volumes.ts'
import type { OsUser } from '../../../platform/users.ts'
import type { Release, ReleaseRef } from '../../runtime.ts'

/** The folders of a release. All paths are absolute. */
export interface ReleasePaths {
  /** The release itself: removed with it. */
  readonly directory: string
  /** The sources, and what the build makes of them. The working directory of every command. */
  readonly source: string
  /** `HOME`. This folder and the next two belong to the app and outlive its releases. */
  readonly home: string
  /** `TMPDIR` */
  readonly temporary: string
  /** The file that names the programs the release runs with. Commands of the app do not see it. */
  readonly toolchain: string
  /** The files that the app sees as `/etc/passwd` and `/etc/group`. It cannot write them. */
  readonly passwd: string
  readonly group: string
  /** The file that names the folders in which copied files were built. Commands of the app do not see it. */
  readonly origins: string
  /** Downloads of earlier builds. May be removed whenever no build of the app runs. */
  readonly cache: string
  /** The volumes of the app, see `platform/disk/volumes.ts`. */
  readonly volumes: string
}

/** A release with its folders on this machine. */
export interface LocalRelease extends Release {
  readonly paths: ReleasePaths
  readonly user: OsUser | null
  /** The folders in which its files were built, before they were copied. */
  readonly origins: readonly string[]
}

export const appDirectory = (apps: string, appId: string): string => join(apps, appId)

/** @param apps the folder of all apps in the data directory */
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

/** Returns the uid that the commands of an app run as; `undefined` when none has ever run. */
export async function ownerOf({ home }: Pick<ReleasePaths, 'home'>): Promise<number | undefined> {
  // The folder that it lies in is the server's, so that the app cannot put another user's in its place.
  return (await lstat(home).catch(() => undefined))?.uid
}

/** Lists all apps that have a folder, with the ids of their releases. */
export async function listApps(apps: string): Promise<{ id: string; releases: string[] }[]> {
  return Promise.all(
    (await foldersIn(apps)).map(async (id) => ({ id, releases: await foldersIn(join(apps, id, 'releases')) })),
  )
}

/** Lists the folders of the build caches of all apps, also of those that have none yet. */
export async function appCacheFolders(apps: string): Promise<string[]> {
  return (await readdir(apps).catch(() => [])).map((id) => join(apps, id, 'cache'))
}

/** Returns the folders of the volumes of a release on this machine, by the names of the volumes. */
export function volumeFoldersOf({
  paths,
  volumes = {},
}: Pick<LocalRelease, 'paths' | 'volumes'>): Record<string, string> {
  return Object.fromEntries(Object.keys(volumes).map((name) => [name, volumeFiles(paths.volumes, name)]))
}
