import type { ClientBase, QueryResult } from 'pg'
import { type DatabaseHandle, openDatabase, type PoolOptions } from '../database.ts'
import type { Logger } from '../logger.ts'
import { NotLeading } from './epoch.ts'

/*
 * Why no write of an older leader can commit once a newer one has begun to work. The newer leader (1) commits the higher
 * epoch, (2) looks for the sessions of older epochs by their names and ends them until there are none, (3) begins.
 * Each connection of a leader (a) takes its name, (b) reads the epoch in a statement of its own, and is used only when
 * that is still its own epoch. PostgreSQL shows a session's name to others from (a) until its last transaction has ended.
 *
 * - A session with (a) before (2) is seen, and gone before (3). Its last transaction has committed or rolled back before.
 * - A session with (a) after (2) does (b) after (1), reads the higher epoch, and is refused.
 *
 * The epoch is read without a lock: it is enough that the snapshot of (b) is taken after (a), which holds at every
 * isolation level, because `set` takes no snapshot.
 */

const namePrefix = 'fairlead leader '

/**
 * Opens a pool whose connections can write as long as `epoch` is the newest one. Afterwards queries reject, with
 * `NotLeading` where a new connection is refused, and with PostgreSQL's 57P01 (admin_shutdown) where one was ended.
 */
export function openFencedDatabase(options: PoolOptions, epoch: number, logger: Logger): DatabaseHandle {
  return openDatabase({ ...options, onConnect: (client) => assertLeading(client, epoch) }, logger)
}

/** One round trip. The name is not given at the connection, because a name in DATABASE_URL would replace it there. */
async function assertLeading(client: ClientBase, epoch: number): Promise<void> {
  const results = (await client.query(
    `set application_name = '${namePrefix}${epoch}'; select epoch from leadership`,
  )) as unknown as readonly QueryResult<{ epoch: string }>[]
  const newest = results[1]?.rows[0]?.epoch
  if (newest !== String(epoch)) throw new NotLeading(epoch, `epoch ${newest ?? 'of nobody'} has begun`)
}

/**
 * A statement that ends the sessions of epochs before its parameter, and returns one row for each. PostgreSQL may look at
 * the names of all databases' sessions first, which users of the same server choose: hence a number without a limit.
 */
export const endOlderSessions = `
  select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and application_name ~ '^${namePrefix}[0-9]+$'
    and substr(application_name, ${namePrefix.length + 1})::numeric < $1`
