import { sql } from 'kysely'
import { sleepUntilAborted } from './abort.ts'
import { type Database, migrate, oldestServerKey } from './database.ts'
import { conflictMs } from './leadership/servers.ts'
import type { Logger } from './logger.ts'
import {
  type Migrations,
  newestMigration,
  oldestServerAfter,
  pendingMigrations,
  type Schema,
  SchemaError,
} from './migrations/schema.ts'

export interface PrepareSchemaOptions {
  readonly db: Database
  readonly migrations: Migrations
  readonly logger: Logger
  readonly signal: AbortSignal
  /** A server migrates once no server runs that would break; a command migrates only while no server runs. */
  readonly program: 'server' | 'command'
}

/** A killed server has a row, and its connections, for a moment longer. */
const waitMs = conflictMs + 2_000
const pollMs = 250
const attempts = 3

/**
 * Makes the schema usable for this version: migrates it, or accepts the schema of a newer version when this version
 * works on it. Rejects with a `SchemaError` that says what to do when neither is possible.
 */
export async function prepareSchema(options: PrepareSchemaOptions): Promise<void> {
  const { db, migrations, logger } = options
  for (let attempt = 1; ; attempt++) {
    const schema = await readSchema(db)
    const pending = pendingMigrations(migrations, schema)
    if (pending.length === 0) {
      const newest = schema.applied.at(-1) ?? ''
      if (newest > newestMigration(migrations)) logger.info({ schema: newest }, 'the schema belongs to a newer version')
      return
    }
    if (schema.applied.length > 0) await untilNoServerBreaks(options)
    try {
      await migrate(db, migrations)
      logger.info({ schema: newestMigration(migrations) }, 'the schema of the database is up to date')
      return
    } catch (error) {
      // A newer version may have just migrated, and this version may work on its schema.
      if (!(error instanceof SchemaError) || attempt === attempts) throw error
    }
  }
}

/** Throws a `SchemaError` when this version cannot work on the current schema. */
export async function assertUsableSchema(db: Database, migrations: Migrations): Promise<void> {
  pendingMigrations(migrations, await readSchema(db))
}

export async function readSchema(db: Database): Promise<Schema> {
  if (!(await hasTable(db, 'kysely_migration'))) return { applied: [], oldestServer: undefined }
  const applied = await sql<{ name: string }>`select name from kysely_migration order by name collate "C"`.execute(db)
  const names = applied.rows.map(({ name }) => name)
  if (names.length === 0) return { applied: [], oldestServer: undefined }
  const oldest = await sql<{ value: Buffer }>`select value from settings where key = ${oldestServerKey}`.execute(db)
  return { applied: names, oldestServer: oldest.rows[0]?.value.toString() }
}

async function untilNoServerBreaks({ db, migrations, logger, signal, program }: PrepareSchemaOptions): Promise<void> {
  const oldest = oldestServerAfter(migrations)
  const breaks = ({ schema = '' }: RunningServer) => program === 'command' || schema < oldest
  const until = performance.now() + (program === 'server' ? waitMs : 0)
  for (let waited = false; ; waited = true) {
    const running = (await runningServers(db, program)).filter(breaks)
    if (running.length === 0) return
    if (performance.now() >= until) throw new SchemaError(refusal(program, running))
    if (!waited) logger.info({ servers: running.map(describe) }, 'waiting for servers of older versions to end')
    await sleepUntilAborted(pollMs, signal)
    signal.throwIfAborted()
  }
}

/** A row of the table `servers`; empty for a leader that only its lock shows. */
interface RunningServer {
  readonly schema?: string
  readonly id?: string
  readonly version?: string
  readonly host?: string
  readonly pid?: number
}

/**
 * Returns the servers that run on a database. For a command, the lock of a leader counts, too, because a leader may be
 * too busy to renew its row. A server does not wait for this lock: a machine that has failed may hold it for hours.
 */
async function runningServers(db: Database, program: PrepareSchemaOptions['program']): Promise<RunningServer[]> {
  const { rows } = await sql<{ server: RunningServer }>`select to_jsonb(servers) as server from servers
    where abs(extract(epoch from now() - seen_at)) * 1000 < ${conflictMs}::float8`.execute(db)
  if (rows.length > 0 || program === 'server') return rows.map(({ server }) => server)
  const locks = await sql<{ held: boolean }>`select exists (
    select from pg_locks join pg_stat_activity using (pid)
    where locktype = 'advisory' and granted and datname = current_database()
      and application_name like 'fairlead leader%'
  ) as held`.execute(db)
  return locks.rows[0]?.held === true ? [{}] : []
}

function refusal(program: PrepareSchemaOptions['program'], running: readonly RunningServer[]): string {
  const names = running.map(describe).join(', ')
  return program === 'command'
    ? `The database needs the migrations of this version, and a server runs on it (${names}). Update the server first, or use the command of its version.`
    : `The database needs a migration after which a running server would break (${names}). Update or stop that server first.`
}

function describe({ schema, id, version, host, pid }: RunningServer): string {
  const parts = [
    id ?? 'a leader',
    version === undefined ? [] : `version ${version}`,
    host === undefined ? [] : `host ${host}`,
    pid === undefined ? [] : `pid ${pid}`,
    schema === undefined ? [] : `schema ${schema}`,
  ]
  return parts.flat().join(', ')
}

async function hasTable(db: Database, name: string): Promise<boolean> {
  const { rows } = await sql<{ found: boolean }>`select to_regclass(${name}) is not null as found`.execute(db)
  return rows[0]?.found === true
}
