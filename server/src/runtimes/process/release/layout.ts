import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { foldersIn } from '../../../platform/disk/folders.ts'
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
  /** Downloads of earlier builds. May be removed whenever no build of the app runs. */
  readonly cache: string
}

/** A release with its folders on this machine. */
export interface LocalRelease extends Release {
  readonly paths: ReleasePaths
  readonly user: OsUser | null
}

/** Uids for apps, both ends included. */
export interface UidRange {
  readonly from: number
  readonly to: number
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
    cache: join(app, 'cache'),
  }
}

/**
 * @param options.uids the uids that apps get when the server is root, else `null`
 * @throws Error when the range has no uid for the app
 */
export function localRelease(
  release: Release,
  options: { readonly apps: string; readonly uids: UidRange | null },
): LocalRelease {
  return { ...release, paths: pathsOf(options.apps, release), user: userOf(release.appNumber, options.uids) }
}

function userOf(appNumber: number, uids: UidRange | null): OsUser | null {
  if (uids === null) return null
  const uid = uids.from + appNumber
  if (uid > uids.to) throw new Error('No unprivileged uid is left for another app. Widen FAIRLEAD_UIDS.')
  return { uid, gid: uid }
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
