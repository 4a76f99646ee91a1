import { copyFile, type FileHandle, open, rename, stat, truncate } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** Refused logins are logged, and anybody who reaches the port can be refused. */
const limitBytes = 1024 * 1024

export function logFileOf(directory: string): string {
  return join(dirname(directory), 'postgres.log')
}

/** Opens the log for appending. A log above the limit is renamed to `<file>.1` first, over its predecessor. */
export async function openLog(path: string): Promise<FileHandle> {
  const file = await open(path, 'a', 0o600)
  if ((await file.stat()).size <= limitBytes) return file
  await file.close()
  await rename(path, `${path}.1`)
  return open(path, 'a', 0o600)
}

/**
 * Empties a log above the limit, and keeps its content in `<file>.1`. For a log that PostgreSQL has open: it appends,
 * so it continues at the beginning. Lines that it writes between the two steps are lost.
 */
export async function limitLog(path: string): Promise<void> {
  const size = await stat(path).then(
    (file) => file.size,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return 0
      throw error
    },
  )
  if (size <= limitBytes) return
  await copyFile(path, `${path}.1`)
  await truncate(path)
}
