import type { Client, ClientBase } from 'pg'
import pg from 'pg'
import { sleepUntilAborted, unlessAborted } from '../../../platform/abort.ts'

/**
 * Connections of an administrator to a PostgreSQL instance. No statement waits longer than 5 s for a lock; users'
 * sessions that block a statement are ended before that.
 */
export interface AdminConnection {
  /** Runs statements in one transaction. Drops the connection when the signal aborts. */
  run(text: string, signal: AbortSignal): Promise<void>
  /** Runs a statement that copies or removes files, which takes long for a large database. */
  runLong(text: string, signal: AbortSignal): Promise<void>
  /** Runs statements that PostgreSQL refuses while a database has sessions; ends these sessions first. */
  runWithoutSessions(database: string, text: string, signal: AbortSignal): Promise<void>
  runInside(database: string, text: string, signal: AbortSignal): Promise<void>
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<Row[]>
  databaseExists(name: string): Promise<boolean>
  endSessions(database: string): Promise<void>
  isSuperuser(): Promise<boolean>
  close(): Promise<void>
}

/**
 * The time to wait until ended sessions are gone. PostgreSQL waits as long before it reports that a database is in use.
 */
const endSessionsMs = 5_000
const inUseAttempts = 5
const connectionTimeoutMillis = 10_000
const statementTimeoutMs = 30_000
const longStatementTimeoutMs = 60 * 60_000
/** Reads have separate connections, so that waiting statements do not block the periodic checks. */
const readTimeoutMs = 10_000
const readConnections = 3

const timeouts = (statementMs: number): string =>
  `set lock_timeout = ${lockTimeoutMs}; set statement_timeout = ${statementMs}`

/** @param connection of an administrator, to a database that users cannot enter */
export function createAdminConnection(connection: pg.PoolConfig, onLost: (error: Error) => void): AdminConnection {
  const changes = openPool({ ...connection, max: 10 }, statementTimeoutMs, onLost)
  const reads = openPool({ ...connection, max: readConnections }, readTimeoutMs, onLost)

  const query = async <Row extends object>(text: string, values: readonly unknown[] = []): Promise<Row[]> =>
    (await reads.query<Row>(text, [...values])).rows

  const runWithin = createRunner(changes, query)
  const run = (text: string, signal: AbortSignal) => runWithin(statementTimeoutMs, text, signal)
  const runLong = (text: string, signal: AbortSignal) => runWithin(longStatementTimeoutMs, text, signal)

  const endSessions = async (database: string): Promise<void> => {
    const text = 'select pg_terminate_backend(pid, $2) from pg_stat_activity where datname = $1'
    await query(text, [database, endSessionsMs])
  }

  return {
    run,
    runLong,
    query,
    endSessions,
    runInside: (database, text, signal) => runInside(connection, query, { database, text }, signal),

    async runWithoutSessions(database, text, signal) {
      for (let attempt = 1; ; attempt++) {
        await endSessions(database)
        try {
          return await runLong(text, signal)
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

    async close() {
      await Promise.all([changes.end(), reads.end()])
    },
  }
}

type Runner = (timeoutMs: number, text: string, signal: AbortSignal) => Promise<void>

function createRunner(changes: pg.Pool, query: AdminConnection['query']): Runner {
  return (timeoutMs, text, signal) =>
    retryConcurrentUpdate(async () => {
      signal.throwIfAborted()
      const client = await changes.connect()
      let failure: unknown
      try {
        if (timeoutMs !== statementTimeoutMs) await client.query(timeouts(timeoutMs))
        await unlessAborted(
          endingBlockers(client, query, () => client.query(text)),
          signal,
        )
        if (timeoutMs !== statementTimeoutMs) await client.query(timeouts(statementTimeoutMs))
      } catch (error) {
        failure = error
        throw error
      } finally {
        // After a failure the connection may be lost or have changed timeouts.
        client.release(failure !== undefined)
      }
    })
}

function openPool(
  config: pg.PoolConfig & { readonly max: number },
  timeoutMs: number,
  onLost: (error: Error) => void,
): pg.Pool {
  const pool = new pg.Pool({
    connectionTimeoutMillis,
    application_name: 'fairlead administration',
    ...config,
    onConnect: async (client) => {
      await client.query(timeouts(timeoutMs))
    },
  })
  pool.on('error', onLost)
  // A connection lost during a query rejects that query; without a listener the error would also end the process.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/** Users may create objects in their databases. This search path never finds such an object. */
const insideOptions = '-c search_path=pg_catalog -c default_transaction_read_only=off'

async function runInside(
  connection: pg.PoolConfig,
  query: AdminConnection['query'],
  { database, text }: { readonly database: string; readonly text: string },
  signal: AbortSignal,
): Promise<void> {
  const client = new pg.Client({ ...toDatabase(connection, database), options: insideOptions, connectionTimeoutMillis })
  client.on('error', () => undefined)
  const abort = () => void client.end()
  signal.addEventListener('abort', abort)
  try {
    await client.connect()
    await client.query(timeouts(statementTimeoutMs))
    await endingBlockers(client, query, () => client.query(text))
  } finally {
    signal.removeEventListener('abort', abort)
    await client.end()
  }
}

function toDatabase(connection: pg.PoolConfig, database: string): pg.ClientConfig {
  if (connection.connectionString === undefined) return { ...connection, database }
  const url = new URL(connection.connectionString)
  url.pathname = `/${database}`
  return { connectionString: url.href }
}

/** The time for which a user's transaction may block the administrator before its session is ended. */
const graceMs = 1_000
const againMs = 250

/** The longest wait for a lock. What still blocks a statement then is not a session of a user. */
const lockTimeoutMs = 5_000

/** A condition on `pg_stat_activity` and similar views: true for users' roles, named by `newEngineName`. */
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
async function endingBlockers<Result>(
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

/** True when sessions still use the database of the statement (object_in_use). */
const isInUse = (error: unknown): boolean => codeOf(error) === '55006'

/** duplicate_object, duplicate_database, and unique_violation, when two transactions create the same object. */
const alreadyExists: ReadonlySet<string> = new Set(['42710', '42P04', '23505'])

export const isDuplicate = (error: unknown): boolean => alreadyExists.has(codeOf(error))

const maxAttempts = 5

/**
 * Repeats a statement that failed because of a concurrent statement. If two transactions change the same role or
 * database, PostgreSQL makes one wait and then fail. Each statement sets a final state, so the second can run after the
 * first.
 */
export async function retryConcurrentUpdate<Result>(statement: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await statement()
    } catch (error) {
      if (attempt === maxAttempts || !isConcurrentUpdate(error)) throw error
    }
  }
}

/** PostgreSQL has no code for this error, but never translates the text of internal errors. */
function isConcurrentUpdate(error: unknown): boolean {
  return codeOf(error) === 'XX000' && error instanceof Error && /^tuple concurrently /.test(error.message)
}

function codeOf(error: unknown): string {
  return (error as { code?: string }).code ?? ''
}
