import pg from 'pg'
import { unlessAborted } from '../../platform/abort.ts'
import { isInUse, retryConcurrentUpdate } from './sql-errors.ts'

/** Connections of an administrator to a PostgreSQL instance. */
export interface AdminConnection {
  /** Runs statements; several in one text are one transaction. Drops the connection when the signal aborts. */
  run(text: string, signal: AbortSignal): Promise<void>
  /** Runs statements that PostgreSQL refuses while a database has sessions; ends these sessions first. */
  runWithoutSessions(database: string, text: string, signal: AbortSignal): Promise<void>
  /** Runs statements inside a user's database, on a connection of its own. */
  runInside(database: string, text: string, signal: AbortSignal): Promise<void>
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<Row[]>
  databaseExists(name: string): Promise<boolean>
  endSessions(database: string): Promise<void>
  isSuperuser(): Promise<boolean>
  close(): Promise<void>
}

/** How long to wait for ended sessions to be gone. PostgreSQL waits as long before it reports that a database is in use. */
const endSessionsMs = 5_000
const inUseAttempts = 5
const connectionTimeoutMillis = 10_000

/** @param connection of an administrator, to a database that users cannot enter */
export function createAdminConnection(connection: pg.PoolConfig, onLost: (error: Error) => void): AdminConnection {
  const pool = new pg.Pool({
    max: 10,
    connectionTimeoutMillis,
    application_name: 'fairlead administration',
    ...connection,
  })
  pool.on('error', onLost)
  // A connection lost during a query rejects that query; without a listener it would end the process as well.
  pool.on('connect', (client) => client.on('error', () => undefined))

  const query = async <Row extends object>(text: string, values: readonly unknown[] = []): Promise<Row[]> =>
    (await pool.query<Row>(text, [...values])).rows

  const run = (text: string, signal: AbortSignal): Promise<void> =>
    retryConcurrentUpdate(async () => {
      signal.throwIfAborted()
      const client = await pool.connect()
      try {
        await unlessAborted(client.query(text), signal)
      } finally {
        client.release(signal.aborted)
      }
    })

  const endSessions = async (database: string): Promise<void> => {
    const text = 'select pg_terminate_backend(pid, $2) from pg_stat_activity where datname = $1'
    await query(text, [database, endSessionsMs])
  }

  return {
    run,
    query,
    endSessions,
    runInside: (database, text, signal) => runInside(connection, database, text, signal),

    async runWithoutSessions(database, text, signal) {
      for (let attempt = 1; ; attempt++) {
        await endSessions(database)
        try {
          return await run(text, signal)
        } catch (error) {
          // A client may have connected between the two statements.
          if (!isInUse(error) || attempt === inUseAttempts) throw error
        }
      }
    },

    databaseExists: async (name) => (await query('select from pg_database where datname = $1', [name])).length > 0,

    async isSuperuser() {
      const text = 'select rolsuper as super from pg_roles where rolname = current_user'
      const [role] = await query<{ super: boolean }>(text)
      return role?.super ?? false
    },

    close: () => pool.end(),
  }
}

/** Users may create objects in their databases. With this search path no name in a statement resolves to one of them. */
const insideOptions = '-c search_path=pg_catalog -c default_transaction_read_only=off'

async function runInside(
  connection: pg.PoolConfig,
  database: string,
  text: string,
  signal: AbortSignal,
): Promise<void> {
  const client = new pg.Client({ ...toDatabase(connection, database), options: insideOptions, connectionTimeoutMillis })
  client.on('error', () => undefined)
  const abort = () => void client.end()
  signal.addEventListener('abort', abort)
  try {
    await client.connect()
    await client.query(text)
  } finally {
    signal.removeEventListener('abort', abort)
    await client.end()
  }
}

/** Returns the same connection to another database. */
function toDatabase(connection: pg.PoolConfig, database: string): pg.ClientConfig {
  if (connection.connectionString === undefined) return { ...connection, database }
  const url = new URL(connection.connectionString)
  url.pathname = `/${database}`
  return { connectionString: url.href }
}
