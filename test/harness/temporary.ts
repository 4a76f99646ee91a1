import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const isRoot = process.getuid?.() === 0

/** The prefix of all temporary folders of a run: `scripts/end-leftovers.ts` finds them by it. */
export const prefix = `flt-${process.env['TEST_RUN'] ?? 'manual'}-`

/**
 * Makes a folder that is removed at the end of the `await using` block. When the tests run as root, other users may
 * traverse it.
 *
 * @param parent the folder in which it is made
 */
export async function temporaryDirectory(parent = tmpdir()): Promise<{ path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(parent, prefix))
  if (isRoot) await chmod(path, 0o711)
  return {
    path,
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 5 }),
  }
}
