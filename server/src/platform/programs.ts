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

/** Returns the last lines of a text that are not empty, for error messages. */
export function lastLines(text: string, count = 12): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return lines.slice(-count).join('\n')
}
