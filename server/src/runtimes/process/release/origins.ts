import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { readOptional } from '../../../platform/files.ts'
import type { ReleasePaths } from './layout.ts'

/**
 * Returns the folders that the files of a release were in when they were built, before copies of it were made; none for a
 * release that was built where it is. What a build makes may name its folder: programs of Python's environments begin with
 * the path of their interpreter.
 */
export async function readOrigins({ origins }: Pick<ReleasePaths, 'origins'>): Promise<readonly string[]> {
  const text = await readOptional(origins)
  return text === undefined || text === '' ? [] : (JSON.parse(text) as string[])
}

/** Each is a link in the sandbox of every command, and a release may be a copy of a copy many times over. */
const mostOrigins = 16

/** Returns the origins of a copy: the folder of the build, and the newest of those that its files were in since. */
export function originsOfCopy(origins: readonly string[], folder: string): readonly string[] {
  const [built = folder, ...since] = [...origins, folder]
  return [built, ...since.slice(1 - mostOrigins)]
}

export async function writeOrigins(
  { origins }: Pick<ReleasePaths, 'origins'>,
  folders: readonly string[],
): Promise<void> {
  await mkdir(dirname(origins), { recursive: true, mode: 0o700 })
  await writeFile(origins, JSON.stringify(folders), { mode: 0o600 })
}
