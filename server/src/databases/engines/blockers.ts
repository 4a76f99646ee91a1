import type { Client, ClientBase } from 'pg'
import { sleepUntilAborted } from '../../platform/abort.ts'

/** The time for which a user's transaction may block the administrator before its session is ended. */
const graceMs = 1_000
const againMs = 250

/** The longest wait for a lock; what still blocks then is not a user's session. */
export const lockTimeoutMs = 5_000

/**
 * A condition on `pg_stat_activity` and similar views: true for users' roles, which have names from `newEngineName`.
 */
export const ofUsers = (column: string): string => `${column} ~ '^[a-z]{26}$'`

const endBlockers = `
  select pg_terminate_backend(pid) from pg_stat_activity
  where pid = any(pg_blocking_pids($1)) and ${ofUsers('usename')}`

/**
 * Runs a statement of an administrator, and ends users' sessions that block it: otherwise a user with an open
 * transaction could prevent changes to the role and the settings of a database.
 *
 * @param client the connection of the statement
 * @param query runs on another connection
 */
export async function endingBlockers<Result>(
  client: ClientBase | Client,
  query: (text: string, values: readonly unknown[]) => Promise<unknown>,
  statement: () => Promise<Result>,
): Promise<Result> {
  const { processID: pid } = client as unknown as { readonly processID: number }
  const over = new AbortController()
  const watch = async () => {
    await sleepUntilAborted(graceMs, over.signal)
    while (!over.signal.aborted) {
      // If this fails, the statement's own lock timeout reports the block.
      await query(endBlockers, [pid]).catch(() => undefined)
      await sleepUntilAborted(againMs, over.signal)
    }
  }
  const watching = watch()
  try {
    return await statement()
  } finally {
    over.abort()
    await watching
  }
}
