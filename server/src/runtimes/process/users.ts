import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { ensurePrivateFolder, foldersIn } from '../../platform/disk/folders.ts'
import { usersOfProcesses } from '../../platform/processes.ts'
import type { OsUser } from '../../platform/users.ts'
import { appDirectory, giveToUser, pathsOf, type ReleasePaths } from './release-folders.ts'

/** A range of uids for apps, both ends included. */
export interface UidRange {
  readonly from: number
  readonly to: number
  readonly reserved?: readonly number[]
}

export interface AppUsers {
  /**
   * Returns the user of an app, which owns the home folder of the app. A new app gets a uid without any folder of an
   * app and without a process.
   *
   * @param app.number grows by one with each app, so that a uid is reused as late as possible
   * @throws Error when the range has no uid for the app
   */
  of(app: { readonly id: string; readonly number: number }): Promise<OsUser | null>
}

/** @param uids `null` where apps run as the server's user */
export function createAppUsers(apps: string, uids: UidRange | null): AppUsers {
  if (uids === null) return { of: async () => null }
  let last: Promise<unknown> = Promise.resolve()
  return {
    async of(app) {
      const paths = pathsOf(apps, { id: '', appId: app.id })
      const owner = (await lstat(paths.home).catch(() => undefined))?.uid
      if (owner !== undefined && isFor(uids, owner)) return userOf(owner)
      // One choice at a time, so that two apps never get the same uid.
      const chosen = last.then(() => choose(apps, uids, app.number, paths))
      last = chosen.catch(() => undefined)
      return chosen
    },
  }
}

async function choose(apps: string, uids: UidRange, number: number, paths: ReleasePaths): Promise<OsUser> {
  const size = uids.to - uids.from + 1
  const taken = new Set([...(await ownersIn(apps)), ...(await usersOfProcesses())])
  for (let step = 0; step < size; step += 1) {
    const user = userOf(uids.from + ((number + step) % size))
    if (!isFor(uids, user.uid) || taken.has(user.uid)) continue
    await ensurePrivateFolder(paths.home, user)
    // The folders belong to an app that ran as a user outside of the range.
    for (const folder of [paths.temporary, paths.cache, paths.home]) {
      const owner = (await lstat(folder).catch(() => undefined))?.uid ?? user.uid
      if (owner !== user.uid) await giveToUser(folder, user)
    }
    return user
  }
  throw new Error('No unprivileged uid is left for another app. Delete apps, or widen FAIRLEAD_UIDS.')
}

const userOf = (uid: number): OsUser => ({ uid, gid: uid })

const isFor = ({ from, to, reserved = [] }: UidRange, uid: number): boolean =>
  uid >= from && uid <= to && !reserved.includes(uid)

/** Returns the owners of all files that an app may have, also of leftovers of a removal. */
async function ownersIn(apps: string): Promise<Set<number>> {
  const owners = new Set<number>()
  for (const id of await foldersIn(apps)) {
    const { home, temporary, cache } = pathsOf(apps, { id: '', appId: id })
    const releases = (await foldersIn(join(appDirectory(apps, id), 'releases'))).map((release) => ({
      id: release,
      appId: id,
    }))
    for (const path of [home, temporary, cache, ...releases.map((release) => pathsOf(apps, release).source)]) {
      const info = await lstat(path).catch(() => null)
      if (info !== null) owners.add(info.uid)
    }
  }
  return owners
}
