import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { programFile } from '../../platform/machine/own-files.ts'

/**
 * Returns the version of the gateway's program: a fingerprint of its file and of Node. It stays the same over an update of
 * Fairlead that does not change the gateway, so that such an update leaves the running one alone, with its WebSockets.
 */
export async function programVersion(): Promise<string> {
  const hash = createHash('sha256').update(process.version)
  return hash
    .update(await readFile(programFile('gateway')))
    .digest('hex')
    .slice(0, 12)
}
