import { sql } from 'kysely'
import { sleepUntilAborted } from '../abort.ts'
import { type Database, lockByName, type Transaction } from '../database.ts'
import type { Logger } from '../logger.ts'
import { startPeriodic } from '../periodic.ts'
import { pollMs } from './lock.ts'

export interface ServerIdentity {
  /** New for each process. */
  readonly id: string
  readonly version: string
  /** The name of the newest migration that the server knows. */
  readonly schema: string
  readonly host: string
  readonly pid: number
  readonly address: string
  /** The id of its data directory, which servers that work together share. */
  readonly dataDirectory: string
}

// An interface would not fit Kysely's type of tables.
type ServersTables = {
  servers: {
    id: string
    version: string
    schema: string
    host: string
    pid: number
    address: string
    data_directory: string
    started_at: Date
    seen_at: Date
  }
}

const refreshMs = 2_000
/** A server that was seen within this time is live, so no server with another data directory may start. */
export const conflictMs = 10_000
/** The row of a server that was not seen for this long is deleted. */
const forgetMs = 30_000

const ago = (ms: number) => sql<Date>`clock_timestamp() - make_interval(secs => ${ms / 1000}::float8)`
/** A later `seen_at` dates from before the clock was set back, and is as meaningless as a very old `seen_at`. */
const later = (ms: number) => sql<Date>`clock_timestamp() + make_interval(secs => ${ms / 1000}::float8)`

/** The error of a server that cannot start beside a server with another data directory. */
export function aloneError(): Error {
  return new Error(
    'Another Fairlead server with another data directory is running on this database. Apps, files and logs are in the ' +
      'data directory, so servers with different ones cannot share the work. Start this server on the same data ' +
      'directory, give it a separate database (DATABASE_URL), or stop the other one first.',
  )
}

export interface RegistrationOptions {
  readonly db: Database
  readonly server: ServerIdentity
  readonly logger: Logger
  readonly signal: AbortSignal
  /**
   * Called when this server was paused for so long that it counted as dead, and a server with another data directory
   * started.
   */
  readonly onConflict: (error: Error) => void
}

/**
 * Registers a server as live, until `stop`. Rejects when a live server has another data directory. Waits until a
 * server that was just killed no longer counts as live.
 */
export async function registerServer(options: RegistrationOptions): Promise<{ stop(): Promise<void> }> {
  const { server, logger, onConflict } = options
  const db = options.db.withTables<ServersTables>()
  await registerWhenAlone(options)
  const refresh = async () => {
    const { numUpdatedRows } = await db
      .updateTable('servers')
      .set({ seen_at: sql<Date>`clock_timestamp()` })
      .where('id', '=', server.id)
      .where('seen_at', '>', ago(conflictMs))
      .where('seen_at', '<', later(conflictMs))
      .executeTakeFirst()
    if (numUpdatedRows === 0n && (await register(options.db, server)) !== null) onConflict(aloneError())
    await db
      .deleteFrom('servers')
      .where((where) => where.or([where('seen_at', '<', ago(forgetMs)), where('seen_at', '>', later(forgetMs))]))
      .execute()
  }
  const periodic = startPeriodic({ name: 'the registration of this server', everyMs: refreshMs, work: refresh, logger })
  return {
    async stop() {
      await periodic.stop()
      await db.deleteFrom('servers').where('id', '=', server.id).execute()
    },
  }
}

/**
 * A killed server no longer updates its `seen_at`. So this waits until the last `seen_at` of the other server is old,
 * and rejects when it sees a newer value, which shows that the other server is live.
 */
async function registerWhenAlone({ db, server, signal }: RegistrationOptions): Promise<void> {
  const until = performance.now() + conflictMs + refreshMs
  let before: string | undefined
  for (;;) {
    signal.throwIfAborted()
    const sign = await register(db, server)
    if (sign === null) return
    if ((before !== undefined && sign !== before) || performance.now() > until) throw aloneError()
    before = sign
    await sleepUntilAborted(pollMs, signal)
  }
}

/** Registers a server and returns null; or returns the last `seen_at` of a live server with another data directory. */
function register(database: Database, server: ServerIdentity): Promise<string | null> {
  return database.transaction().execute(async (trx) => {
    await lockByName(trx, 'servers')
    const sign = await lastSignOfOthers(trx, server.dataDirectory)
    if (sign !== null) return sign
    const { dataDirectory: data_directory, ...row } = server
    const now = sql<Date>`clock_timestamp()`
    await trx
      .withTables<ServersTables>()
      .insertInto('servers')
      .values({ ...row, data_directory, started_at: now, seen_at: now })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ seen_at: now }))
      .execute()
    return null
  })
}

/** Returns the last sign of life of any server or leader with another data directory; `null` when there is none. */
async function lastSignOfOthers(database: Transaction, dataDirectory: string): Promise<string | null> {
  const { rows } = await sql<{ sign: string | null }>`
    select max(sign)::text as sign from (
      select seen_at as sign from servers
      where data_directory <> ${dataDirectory} and seen_at between ${ago(conflictMs)} and ${later(conflictMs)}
      union all
      select renewed_at from leadership
      where data_directory <> ${dataDirectory} and holder is not null
        and renewed_at between ${ago(conflictMs)} and ${later(conflictMs)}
    ) as signs`.execute(database)
  return rows[0]?.sign ?? null
}
