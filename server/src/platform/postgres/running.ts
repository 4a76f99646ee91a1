import { realpath } from 'node:fs/promises'
import { findHolder, type PostmasterLock } from './lock-file.ts'
import { stopPostmaster } from './postmaster.ts'
import { join } from './session.ts'

const joinDeadlineMs = 5_000

/** Returns the postmaster that runs on a cluster's folder; `null` when none does. Starts nothing. */
export async function findPostmaster(directory: string): Promise<PostmasterLock | null> {
  const holder = await findHolder(await realpath(directory).catch(() => directory))
  return holder.state === 'running' ? holder : null
}

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
  const session = await join(postmaster, real, 'postgres', AbortSignal.timeout(joinDeadlineMs))
  if (session === null) return false
  try {
    if (!(await session.leave())) return false
    await stopPostmaster(session.pid, real)
    return true
  } finally {
    await session.end()
  }
}
