import { execFile } from 'node:child_process'
import { chmod, lstat, statfs } from 'node:fs/promises'
import { promisify } from 'node:util'
import { SYSTEM_FOLDERS } from './folders.ts'

/*
 * Quotas of btrfs (btrfs-quota(8)): a folder that is a subvolume can be a member of groups, and a group has a limit for all
 * of its members together. A write beyond it fails at once with EDQUOT.
 */

/** The number that statfs(2) has for btrfs. */
const btrfs = 0x9123683e
/** The inode of the top folder of every subvolume, and of no other folder. */
const topInode = 256

/**
 * True where a folder is on a btrfs whose quotas are on. Turning them on is left to the operator: it concerns the whole
 * file system.
 */
export async function hasQuotas(folder: string): Promise<boolean> {
  if (!(await isOnBtrfs(folder))) return false
  return run('qgroup', 'show', '--', folder).then(
    () => true,
    () => false,
  )
}

/** True for a folder on btrfs; a folder that does not exist is on none. */
export async function isOnBtrfs(folder: string): Promise<boolean> {
  const found = await statfs(folder).catch(() => null)
  return found?.type === btrfs
}

/** Makes a folder that can be a member of groups, unless there is something of that name. */
export async function makeSubvolume(path: string, mode: number): Promise<void> {
  if ((await lstat(path).catch(() => null)) !== null) return
  try {
    await run('subvolume', 'create', '--', path)
  } catch (error) {
    // Another deployment of the same app has made it meanwhile.
    if (!(await isSubvolume(path))) throw error
  }
  await chmod(path, mode)
}

export async function isSubvolume(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => null)
  return found?.isDirectory() === true && found.ino === topInode && (await isOnBtrfs(path))
}

/** Limits a subvolume and others together, by a group that has the number of the first one. Others may be plain folders. */
export async function limitTogether(first: string, others: readonly string[], bytes: number): Promise<void> {
  const [number] = await numbersOf([first])
  const limit = () => run('qgroup', 'limit', '--', String(bytes), `1/${number}`, first)
  // The group is there except for the first time, and after quotas were turned off and on again.
  const isThere = await limit().then(
    () => true,
    () => false,
  )
  if (isThere) return
  await unlessThere(run('qgroup', 'create', '--', `1/${number}`, first))
  for (const member of await numbersOf([first, ...others])) {
    await unlessThere(run('qgroup', 'assign', '--', `0/${member}`, `1/${number}`, first))
  }
  await limit()
}

/** Ends a limit, if there is one. */
export async function endLimit(first: string): Promise<void> {
  const [number] = await numbersOf([first])
  // There is no group of a release that has never run.
  await run('qgroup', 'limit', '--', 'none', `1/${number}`, first).catch(() => undefined)
}

/** Removes the group of a subvolume, which must come before the subvolume itself: its number is known no longer then. */
export async function removeGroup(first: string, others: readonly string[]): Promise<void> {
  const [number, ...more] = await numbersOf([first, ...others])
  for (const member of [number, ...more]) {
    // It is no member of a group that was never made.
    await run('qgroup', 'remove', '--', `0/${member}`, `1/${number}`, first).catch(() => undefined)
  }
  await run('qgroup', 'destroy', '--', `1/${number}`, first).catch(() => undefined)
}

/** Returns the numbers of those folders that are subvolumes. */
async function numbersOf(paths: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const path of paths) {
    if (await isSubvolume(path)) found.push((await run('inspect-internal', 'rootid', '--', path)).trim())
  }
  return found
}

async function run(...args: string[]): Promise<string> {
  const options = { env: { PATH: [...SYSTEM_FOLDERS, '/usr/sbin', '/sbin'].join(':'), LC_ALL: 'C' }, timeout: 60_000 }
  return (await promisify(execFile)('btrfs', args, options)).stdout
}

/** Accepts that it was done before: instances of one release start at the same time. */
async function unlessThere(done: Promise<unknown>): Promise<void> {
  await done.catch((error: unknown) => {
    if (!String(error).includes('File exists')) throw error
  })
}
