import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'

/**
 * Finds the file of a command. Returns `null` when there is none. A command that is named by its path needs only to
 * exist: the reason why it cannot be run says more than "not found".
 *
 * @param path the folders that a plain name is looked up in
 */
export async function resolveCommand(command: string, path: readonly string[], cwd: string): Promise<string | null> {
  if (command.includes('/')) {
    const file = resolve(cwd, command)
    return (await isFile(file, constants.F_OK)) ? file : null
  }
  for (const folder of path) {
    const file = join(folder, command)
    if (await isFile(file, constants.X_OK)) return file
  }
  return null
}

async function isFile(path: string, mode: number): Promise<boolean> {
  try {
    await access(path, mode)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}
