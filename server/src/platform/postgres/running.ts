import { realpath } from 'node:fs/promises'
import { findPostmaster } from './lock-file.ts'
import { stopPostmaster } from './postmaster.ts'
import { joinCluster } from './session.ts'

const joinDeadlineMs = 5_000

/**
 * Stops the cluster in a folder, if it runs. Returns true when it did.
 *
 * @param options.force false to leave it running while other processes are its members
 */
export async function stopRunningCluster(directory: string, { force }: { readonly force: boolean }): Promise<boolean> {
  const postmaster = await findPostmaster(directory)
  if (postmaster === null) return false
  const real = await realpath(directory)
  if (force) {
    await stopPostmaster(postmaster.pid, real)
    return true
  }
  const session = await joinCluster(postmaster, real, 'postgres', AbortSignal.timeout(joinDeadlineMs))
  if (session === null) return false
  try {
    if (!(await session.leave())) return false
    await stopPostmaster(session.pid, real)
    return true
  } finally {
    await session.end()
  }
}
