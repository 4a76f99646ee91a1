import { constants } from 'node:fs'
import { open, opendir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { OsUser } from '../../../platform/users.ts'
import type { LocalRelease } from '../release/layout.ts'

/** Non-blocking, because opening a FIFO would wait for a writer. */
const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** The rights that a group needs to pass a folder. */
const pass = 0o010
/** The rights that a group needs to read a file, or to list and pass a folder. */
const readFile = 0o040
const readFolder = 0o050

/**
 * Lets the reader, by its group, pass the folders that lead to a site. Does nothing where the reader is the user of the
 * server, or root, and needs no rights.
 *
 * @param folder of the site, within the sources
 */
export async function openWayTo(
  { user }: Pick<LocalRelease, 'user'>,
  folder: string,
  reader: OsUser | null,
): Promise<void> {
  if (reader === null || user === null) return
  await give(folder, user, reader, { file: 0, folder: readFolder })
  // Everybody may pass the folders above the app's own.
  let each = dirname(folder)
  while (await give(each, user, reader, { file: 0, folder: pass })) each = dirname(each)
}

/**
 * Lets the reader, by its group, read everything in a site that is not hidden. Only files of the app's own user are
 * changed: another's may have a second name in here.
 */
export async function openSite(
  { user }: Pick<LocalRelease, 'user'>,
  folder: string,
  reader: OsUser | null,
): Promise<void> {
  if (reader === null || user === null) return
  const left = [folder]
  for (let each = left.pop(); each !== undefined; each = left.pop()) {
    if (!(await give(each, user, reader, { file: readFile, folder: readFolder }))) continue
    for await (const entry of await opendir(each)) {
      if (entry.name.startsWith('.') && entry.name !== '.well-known') continue
      const path = join(each, entry.name)
      if (entry.isDirectory()) left.push(path)
      else if (entry.isFile()) await give(path, user, reader, { file: readFile, folder: 0 })
    }
  }
}

/** Gives a file or folder to the reader's group, with rights; returns false when it is none of the owner's. */
async function give(
  path: string,
  owner: OsUser,
  reader: OsUser,
  rights: { readonly file: number; readonly folder: number },
): Promise<boolean> {
  const handle = await open(path, flags).catch(() => null)
  if (handle === null) return false
  try {
    const stats = await handle.stat()
    if (stats.uid !== owner.uid || !(stats.isFile() || stats.isDirectory())) return false
    const mode = (stats.mode & 0o777) | (stats.isFile() ? rights.file : rights.folder)
    if (stats.gid !== reader.gid) await handle.chown(owner.uid, reader.gid)
    if (mode !== (stats.mode & 0o7777)) await handle.chmod(mode)
    return true
  } finally {
    await handle.close()
  }
}
