import { execFile } from 'node:child_process'
import { chmod, lstat, statfs } from 'node:fs/promises'
import { promisify } from 'node:util'
import { SYSTEM_FOLDERS } from './folders.ts'

/*
 * Quotas of btrfs (btrfs-quota(8)): a subvolume can be in groups, and a group limits all its members together. A write
 * beyond the limit fails at once with EDQUOT.
 */

/** The number that statfs(2) has for btrfs. */
const btrfs = 0x9123683e
/** The top folder of every subvolume has this inode, and no other folder has. */
const topInode = 256

/**
 * True for a folder on a btrfs with quotas. Only the operator turns quotas on, because they affect the whole file
 * system.
 */
export async function hasQuotas(folder: string): Promise<boolean> {
  if (!(await isOnBtrfs(folder))) return false
  return run('qgroup', 'show', '--', folder).then(
    () => true,
    () => false,
  )
}

export async function isOnBtrfs(folder: string): Promise<boolean> {
  const found = await statfs(folder).catch(() => null)
  return found?.type === btrfs
}

/** Makes a folder that can be a member of groups, unless the path exists. */
export async function makeSubvolume(path: string, mode: number): Promise<void> {
  if ((await lstat(path).catch(() => null)) !== null) return
  try {
    await run('subvolume', 'create', '--', path)
  } catch (error) {
    // Another deployment of the app may have just made it.
    if (!(await isSubvolume(path))) throw error
  }
  await chmod(path, mode)
}

export async function isSubvolume(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => null)
  return found?.isDirectory() === true && found.ino === topInode && (await isOnBtrfs(path))
}

/** Limits subvolumes together, by a group with the number of `first`. Ignores plain folders in `others`. */
export async function limitTogether(first: string, others: readonly string[], bytes: number): Promise<void> {
  const [number] = await numbersOf([first])
  const limit = () => run('qgroup', 'limit', '--', String(bytes), `1/${number}`, first)
  // The group exists, except at first, and after quotas were turned off and on again.
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

export async function endLimit(first: string): Promise<void> {
  const [number] = await numbersOf([first])
  // A release that has never run has no group.
  await run('qgroup', 'limit', '--', 'none', `1/${number}`, first).catch(() => undefined)
}

/**
 * Removes the group of a subvolume. Must be called before the subvolume is deleted, because its number is lost then.
 */
export async function removeGroup(first: string, others: readonly string[]): Promise<void> {
  const [number, ...more] = await numbersOf([first, ...others])
  for (const member of [number, ...more]) {
    // The group may never have been made.
    await run('qgroup', 'remove', '--', `0/${member}`, `1/${number}`, first).catch(() => undefined)
  }
  await run('qgroup', 'destroy', '--', `1/${number}`, first).catch(() => undefined)
}

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

/** Ignores the error that something exists: instances of a release may start at the same time. */
async function unlessThere(done: Promise<unknown>): Promise<void> {
  await done.catch((error: unknown) => {
    if (!String(error).includes('File exists')) throw error
  })
}
