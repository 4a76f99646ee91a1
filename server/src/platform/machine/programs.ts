import { access, constants } from 'node:fs/promises'
import { join } from 'node:path'

/** Finds the file of a program on a PATH. Returns `null` when there is none. */
export async function findProgram(name: string, path: string): Promise<string | null> {
  for (const folder of path.split(':').filter((each) => each.startsWith('/'))) {
    const file = join(folder, name)
    const isExecutable = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (isExecutable) return file
  }
  return null
}
