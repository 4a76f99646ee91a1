import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Reads the files of a flat folder, by their names. */
export async function filesIn(folder: string): Promise<Record<string, string>> {
  const names = await readdir(folder)
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))
  return Object.fromEntries(names.map((name, index) => [name, texts[index] ?? '']))
}
