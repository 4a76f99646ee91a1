import { lstatSync } from 'node:fs'
import { access, open, readFile } from 'node:fs/promises'

/** Returns the text of a file, or `undefined` when there is no such file. */
export async function readOptional(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** True when there is something at a path that this process can see. */
export function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

/** Writes the names in a folder to the disk: syncing a file says nothing about its name. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Returns an id that differs between successive files, such as Unix sockets, at one path; null without a file. */
export function fileIdentity(path: string): string | null {
  const info = lstatSync(path, { throwIfNoEntry: false })
  return info === undefined ? null : `${info.dev} ${info.ino}`
}
