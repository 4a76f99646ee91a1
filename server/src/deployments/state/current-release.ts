import type { Database, Transaction } from '../../platform/database.ts'
import type { ReleaseReads } from './reads.ts'
import type { DeploymentRow } from './tables.ts'

/**
 * Returns the release that an app's changes are compared with: the one that is being built, else the one that serves, else the
 * latest. After a rollback it is the one that was rolled back to. There is always one, but for an app that is deleted meanwhile.
 */
export async function currentRelease(
  releases: Pick<ReleaseReads, 'serving' | 'latest'>,
  on: Database | Transaction,
  appId: string,
): Promise<DeploymentRow | undefined> {
  const [latest] = await releases.latest(on, [appId])
  if (latest?.status === 'building') return latest
  const [serving] = await releases.serving(on, [appId])
  return serving ?? latest
}
