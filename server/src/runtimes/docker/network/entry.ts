import { createHash } from 'node:crypto'
import { chmod, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { exists } from '../../../platform/files.ts'
import { assetFile } from '../../../platform/machine/own-files.ts'
import { copyOnce } from '../../../platform/machine/reach.ts'

/** The path of the program in containers. */
export const entryInside = '/.fairlead-enter'

/**
 * Copies the program that waits for a container's network and then becomes its command (`scripts/enter/enter.c`) to a folder.
 * Returns its path; null on a machine that it was not made for.
 */
export async function prepareEntry(folder: string): Promise<string | null> {
  const source = assetFile(`enter/${process.arch}`)
  if (!(await exists(source))) return null
  const hash = createHash('sha256')
    .update(await readFile(source))
    .digest('hex')
  // A file of its own for each version: containers hold theirs.
  const copyTo = join(folder, `container-entry-${hash.slice(0, 16)}`)
  // A server knows processes of its containers by this file, so it must be no link to one that another server has as well.
  await copyOnce({ source, copyTo, mayLink: false })
  // Packages do not keep the rights of files.
  await chmod(copyTo, 0o755)
  return copyTo
}
