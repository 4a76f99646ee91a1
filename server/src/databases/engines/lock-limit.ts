import { sendSignal } from '../../platform/processes.ts'
import type { Statistics } from './statistics.ts'

/**
 * Ends the sessions of databases that hold more than `maxLocks` locks, and returns the OIDs of these databases. Signals
 * the processes, which run on this machine: with a full lock table `pg_terminate_backend` fails, because it looks up whose
 * session it is.
 */
export async function endLockHolders(
  statistics: Pick<Statistics, 'lockHolders'>,
  maxLocks: number,
): Promise<readonly number[]> {
  const holders = await statistics.lockHolders(maxLocks)
  // As `pg_terminate_backend` does.
  for (const { pid } of holders) sendSignal(pid, 'SIGTERM')
  return [...new Set(holders.map(({ database }) => database))]
}
