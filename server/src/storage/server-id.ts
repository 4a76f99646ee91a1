import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { readOptional } from '../platform/files.ts'

/**
 * Returns the id of the server that works in a data directory, from a file that the first start writes. It stays the same
 * when the server is started again, and no two data directories share one.
 */
export async function openServerId(path: string): Promise<string> {
  const known = (await readOptional(path))?.trim()
  if (known !== undefined && known !== '') return known
  const id = randomUUID()
  await writeFile(path, `${id}\n`, { mode: 0o600 })
  return id
}
