import { sendSignal } from '../../platform/processes.ts'
import type { Statistics } from './statistics.ts'

/**
 * Ends the sessions of databases that hold more than `maxLocks` locks, and returns the OIDs of these databases. Sends
 * signals to the processes, which run on this machine: with a full lock table `pg_terminate_backend` fails, because it
 * looks up the owner of the session.
 */
export async function endLockHolders(
  statistics: Pick<Statistics, 'lockHolders'>,
  maxLocks: number,
): Promise<readonly number[]> {
  const holders = await statistics.lockHolders(maxLocks)
  // The signal that `pg_terminate_backend` sends.
  for (const { pid } of holders) sendSignal(pid, 'SIGTERM')
  return [...new Set(holders.map(({ database }) => database))]
}
