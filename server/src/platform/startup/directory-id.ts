import { randomUUID } from 'node:crypto'
import { link, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readOptional } from '../files.ts'

/**
 * Returns the id of a data directory, from a file that the first start writes. All servers on it get the same id, also
 * when they start for the first time at once. No two data directories share an id.
 */
export async function directoryId(root: string): Promise<string> {
  const path = join(root, 'server-id')
  for (;;) {
    const known = (await readOptional(path))?.trim()
    if (known !== undefined && known !== '') return known
    // A crash may have left an empty file.
    if (known === '') await rm(path, { force: true })
    const own = `${path}.${randomUUID()}`
    await writeFile(own, `${randomUUID()}\n`, { mode: 0o600 })
    try {
      // Unlike a rename, this does not replace the file of a server that was faster.
      await link(own, path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    } finally {
      await rm(own, { force: true })
    }
  }
}
