import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folders that the program of the gateway consists of. */
const folders = ['control', 'engine', 'exchange', 'http1', 'program', 'sites', 'upstream']

/**
 * Returns the version of the gateway's program: a fingerprint of its files and of Node. It stays the same over an update of
 * Fairlead that does not change the gateway, so that such an update leaves the running one alone, with its WebSockets.
 */
export async function programVersion(): Promise<string> {
  const hash = createHash('sha256').update(process.version)
  for (const folder of folders) {
    const directory = fileURLToPath(new URL(`../${folder}`, import.meta.url))
    for (const name of (await readdir(directory))
      .filter((each) => /\.[jt]s$/.test(each) && !each.endsWith('.d.ts'))
      .sort())
      hash.update(`\n${folder}/${name}\n`).update(await readFile(join(directory, name)))
  }
  return hash.digest('hex').slice(0, 12)
}
