import pg from 'pg'
import type { Limits } from './limits.ts'
import type { OverLimit } from './tables.ts'

/**
 * A running PostgreSQL with an administrator's rights: the SQL of everything that happens to databases and roles. A
 * database and its role bear one name. Each function can be repeated, whatever an earlier call got done before it died.
 *
 * All of it runs in the engine's own database, where users have no say. The one exception, `adopt`, sets a search path in
 * which nothing of theirs is found.
 */
export interface Instance {
  /** Makes the role, or gives an existing one this password and these limits. A new one cannot log in yet. */
  ensureRole(role: { name: string; verifier: string; limits: Limits }, signal: AbortSignal): Promise<void>
  /** Makes the database, empty or from a copy, or takes back a parked one. */
  ensureDatabase(name: string, template: string | null, signal: AbortSignal): Promise<void>
  /** Gives everything in the database that belonged to another's role to the one of its own name. */
  adopt(name: string, former: string, signal: AbortSignal): Promise<void>
  /** Lets its own role in, and nobody else. */
  admit(name: string, signal: AbortSignal): Promise<void>
  /** Lets nobody in, ends who is there, and puts the database aside under another name. */
  park(name: string, signal: AbortSignal): Promise<void>
  /** Removes databases, parked and half-made ones included. */
  drop(names: readonly string[], signal: AbortSignal): Promise<void>
  dropRole(name: string, signal: AbortSignal): Promise<void>
  /** Copies a database, whose connections end and are refused meanwhile. Nobody can connect to the copy. */
  copy(source: string, target: string, signal: AbortSignal): Promise<void>
  /** Replaces the content of a database by that of a copy, once for each `restoreId`. */
  replace(name: string, template: string, restoreId: string, signal: AbortSignal): Promise<void>
  restrict(name: string, level: OverLimit): Promise<void>
  majorVersion(): Promise<number>
  /** Bytes by database; what does not exist is left out. */
  sizes(names: readonly string[]): Promise<Map<string, number>>
  connections(name: string): Promise<number>
  /** Ends the sessions of databases that hold more than `most` locks; says which. */
  endLockHogs(most: number): Promise<number[]>
  close(): Promise<void>
}

const parked = (name: string) => `deleted_${name}`
const restoring = (name: string) => `restoring_${name}`
const replaced = (name: string) => `replaced_${name}`

/** How long ended sessions may take to be gone; PostgreSQL waits as long itself before it calls a database in use. */
const endSessionsMs = 5_000
const inUseAttempts = 5

const id = pg.escapeIdentifier
const literal = pg.escapeLiteral

/**
 * Whole files are copied, which takes half the time of writing everything to the log first. Closed until its rights are
 * settled: by default everybody may connect to a new database.
 */
const copyOf = (template: string) => `template ${id(template)} strategy file_copy allow_connections false`

const letIn = (name: string) =>
  `revoke all on database ${id(name)} from public; alter database ${id(name)} allow_connections true`

/** @param connection of an administrator, to a database that users cannot enter */
export function createInstance(connection: pg.PoolConfig, onLost: (error: Error) => void): Instance {
  const pool = new pg.Pool({
    max: 10,
    connectionTimeoutMillis: 10_000,
    application_name: 'fairlead administration',
    ...connection,
  })
  pool.on('error', onLost)
  pool.on('connect', (client) => client.on('error', () => undefined))

  /** Several statements in one text are one transaction. When the signal aborts, the connection is given up. */
  const run = (text: string, signal: AbortSignal): Promise<void> => unlessRaced(() => runOnce(text, signal))

  const runOnce = async (text: string, signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted()
    const client = await pool.connect()
    const aborted = Promise.withResolvers<never>()
    const abort = () => aborted.reject(signal.reason)
    signal.addEventListener('abort', abort)
    try {
      await Promise.race([client.query(text), aborted.promise])
    } finally {
      signal.removeEventListener('abort', abort)
      client.release(signal.aborted)
    }
  }
  const ask = async <Row extends object>(text: string, values: readonly unknown[]): Promise<Row[]> =>
    (await pool.query<Row>(text, [...values])).rows

  const exists = async (name: string): Promise<boolean> =>
    (await ask('select from pg_database where datname = $1', [name])).length > 0

  const endSessions = async (name: string): Promise<void> => {
    await ask(`select pg_terminate_backend(pid, $2) from pg_stat_activity where datname = $1`, [name, endSessionsMs])
  }

  /** For statements that need a database without sessions: one may have been on its way in. */
  const runAlone = async (name: string, text: string, signal: AbortSignal): Promise<void> => {
    for (let attempt = 1; ; attempt++) {
      await endSessions(name)
      try {
        return await run(text, signal)
      } catch (error) {
        if (codeOf(error) !== objectInUse || attempt === inUseAttempts) throw error
      }
    }
  }

  /** Another attempt, whose server died, may still be at it: whoever comes second finds it done. */
  const create = async (statement: string, alone: string | null, signal: AbortSignal): Promise<void> => {
    try {
      await (alone === null ? run(statement, signal) : runAlone(alone, statement, signal))
    } catch (error) {
      if (!alreadyThere.has(codeOf(error))) throw error
    }
  }

  /** The one thing done where users have a say: in a search path in which nothing of theirs is found. */
  const runInside = async (database: string, text: string, signal: AbortSignal): Promise<void> => {
    const client = new pg.Client({
      ...toDatabase(connection, database),
      options: '-c search_path=pg_catalog -c default_transaction_read_only=off',
      connectionTimeoutMillis: 10_000,
    })
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

  const isSuperuser = async (): Promise<boolean> => {
    const rows = await ask<{ super: boolean }>(
      'select rolsuper as super from pg_roles where rolname = current_user',
      [],
    )
    return rows[0]?.super ?? false
  }

  return {
    async ensureRole({ name, verifier, limits }, signal) {
      const options = `connection limit ${limits.connections} password ${literal(verifier)}`
      const superuser = await isSuperuser()
      const settings = {
        work_mem: `${limits.workMemoryMb}MB`,
        // Only an administrator may set these, so a user cannot undo them either.
        ...(superuser ? { temp_file_limit: `${limits.temporaryMb}MB`, log_min_messages: 'panic' } : {}),
      }
      const statements = [
        ...Object.entries(settings).map(([key, value]) => `alter role ${id(name)} set ${key} = ${literal(value)}`),
        // Who is no superuser must be a member of a role to give it a database.
        ...(superuser ? [] : [`grant ${id(name)} to current_user`]),
      ]
      // A user may be changing the role too, in a transaction that is left open. Requests wait for this.
      const patience = "set local lock_timeout = '2s'"
      const rights = 'nologin nocreatedb nocreaterole'
      const making = [`create role ${id(name)} ${rights} ${options}`, ...statements]
      try {
        await run(making.join('; '), signal)
      } catch (error) {
        if (!alreadyThere.has(codeOf(error))) throw error
        await run([patience, `alter role ${id(name)} ${options}`, ...statements].join('; '), signal)
      }
    },

    async ensureDatabase(name, template, signal) {
      if (await exists(name)) return
      if (await exists(parked(name))) {
        return runAlone(parked(name), `alter database ${id(parked(name))} rename to ${id(name)}`, signal)
      }
      const from = template === null ? 'template template0 allow_connections false' : copyOf(template)
      await create(`create database ${id(name)} owner ${id(name)} ${from}`, null, signal)
    },

    async adopt(name, former, signal) {
      await run(letIn(name), signal)
      const owned = await ask<{ name: string }>(
        'select datname as name from pg_database where datdba = (select oid from pg_roles where rolname = $1)',
        [former],
      )
      // REASSIGN OWNED would hand over the former owner's databases as well; they go back in the same transaction.
      const back = owned.map((database) => `alter database ${id(database.name)} owner to ${id(former)}`)
      const statements = [`reassign owned by ${id(former)} to ${id(name)}`, ...back]
      await unlessRaced(() => runInside(name, statements.join('; '), signal))
    },

    async admit(name, signal) {
      await run(`${letIn(name)}; alter role ${id(name)} login`, signal)
    },

    async park(name, signal) {
      if ((await ask('select from pg_roles where rolname = $1', [name])).length > 0) {
        await run(`alter role ${id(name)} nologin`, signal)
      }
      // Of a restoration that the deletion came upon.
      for (const half of [restoring(name), replaced(name)]) {
        await run(`drop database if exists ${id(half)} with (force)`, signal)
      }
      if (!(await exists(name))) return
      await runAlone(name, `alter database ${id(name)} rename to ${id(parked(name))}`, signal)
    },

    async drop(names, signal) {
      for (const name of names.flatMap((each) => [each, parked(each), restoring(each), replaced(each)])) {
        if (!(await exists(name))) continue
        // An owner may have called it a template, which protects it.
        await run(`alter database ${id(name)} is_template false`, signal)
        await run(`drop database if exists ${id(name)} with (force)`, signal)
      }
    },

    async dropRole(name, signal) {
      // Rights that the role still has in databases which were made from its snapshots.
      const elsewhere = await ask<{ name: string }>(
        `select distinct d.datname as name from pg_shdepend s join pg_database d on d.oid = s.dbid
         where s.refclassid = 'pg_authid'::regclass and s.refobjid = (select oid from pg_roles where rolname = $1)`,
        [name],
      )
      for (const database of elsewhere) await runInside(database.name, `drop owned by ${id(name)}`, signal)
      await run(`drop role if exists ${id(name)}`, signal)
    },

    async copy(source, target, signal) {
      try {
        if (await exists(target)) return
        await run(`alter database ${id(source)} allow_connections false`, signal)
        const making = `create database ${id(target)} ${copyOf(source)}`
        await create(making, source, signal)
      } finally {
        await run(`alter database ${id(source)} allow_connections true`, signal)
      }
    },

    async replace(name, template, restoreId, signal) {
      const [fresh, old] = [restoring(name), replaced(name)]
      const isDone = async (database: string) => {
        const marked = `select from pg_database where datname = $1 and shobj_description(oid, 'pg_database') = $2`
        return (await ask(marked, [database, restoreId])).length > 0
      }
      if (!(await isDone(name))) {
        // Made first: its users go on until the one moment of the change.
        if (!(await isDone(fresh))) {
          await run(`drop database if exists ${id(fresh)} with (force)`, signal)
          const making = `create database ${id(fresh)} owner ${id(name)} ${copyOf(template)}`
          await create(making, null, signal)
          await run(`comment on database ${id(fresh)} is ${literal(restoreId)}`, signal)
        }
        await run(`alter database ${id(name)} allow_connections false`, signal)
        // Both or neither, so that there is always a database of this name.
        const moves = [
          `alter database ${id(name)} is_template false`,
          `alter database ${id(name)} rename to ${id(old)}`,
          `alter database ${id(fresh)} rename to ${id(name)}`,
        ]
        await runAlone(name, moves.join('; '), signal)
      }
      await run(`drop database if exists ${id(old)} with (force)`, signal)
    },

    async restrict(name, level) {
      const setting =
        level === 'none' ? 'reset default_transaction_read_only' : 'set default_transaction_read_only = on'
      // One transaction: when the database was deleted meanwhile, its role stays as that left it.
      await unlessRaced(() =>
        pool.query(
          `alter role ${id(name)} ${level === 'closed' ? 'nologin' : 'login'}; ` +
            `alter role ${id(name)} in database ${id(name)} ${setting}`,
        ),
      )
      // Sessions keep the setting that they began with.
      await endSessions(name)
    },

    async majorVersion() {
      const rows = await ask<{ number: string }>(`select current_setting('server_version_num') as number`, [])
      return Math.floor(Number(rows[0]?.number) / 10_000)
    },

    async sizes(names) {
      const rows = await ask<{ name: string; bytes: string }>(
        `select datname as name, pg_database_size(oid) as bytes from pg_database where datname = any($1)`,
        [names],
      )
      return new Map(rows.map(({ name, bytes }) => [name, Number(bytes)]))
    },

    async connections(name) {
      // PostgreSQL's own workers come and go.
      const text = `select count(*) from pg_stat_activity where datname = $1 and backend_type = 'client backend'`
      const rows = await ask<{ count: string }>(text, [name])
      return Number(rows[0]?.count ?? 0)
    },

    async endLockHogs(most) {
      // Only what needs no lock itself: with the table full, a look into a catalogue that all databases share would fail,
      // and so would asking PostgreSQL to end a session, which looks up whose it is.
      const rows = await ask<{ database: number; pid: number }>(
        `with sessions as (select datid, pid, usesysid from pg_stat_get_activity(null)),
         own as (select usesysid from sessions where pid = pg_backend_pid()),
         held as (
           select s.datid from pg_lock_status() l join sessions s using (pid)
           where s.usesysid <> (select usesysid from own) group by s.datid having count(*) > $1
         )
         select s.datid::integer as database, s.pid from held join sessions s using (datid)`,
        [most],
      )
      for (const { pid } of rows) endSession(pid)
      return [...new Set(rows.map(({ database }) => database))]
    },

    close: () => pool.end(),
  }
}

/** The same connection to another database. */
function toDatabase(connection: pg.PoolConfig, database: string): pg.ClientConfig {
  if (connection.connectionString === undefined) return { ...connection, database }
  const url = new URL(connection.connectionString)
  url.pathname = `/${database}`
  return { connectionString: url.href }
}

/** As `pg_terminate_backend` does it; the engine is on this machine. */
function endSession(pid: number): void {
  try {
    process.kill(pid, 'SIGTERM')
  } catch {
    // It has ended by itself.
  }
}

const raceAttempts = 5

/**
 * Of two transactions that change the same role or database at once, PostgreSQL lets one wait and then fail. A request
 * and a job may be those two; the statements say what is to be, so the second one is done after the first.
 */
async function unlessRaced<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (attempt === raceAttempts || !isRace(error)) throw error
    }
  }
}

const objectInUse = '55006'
/** duplicate_object, duplicate_database, and unique_violation when two do it at the very same time. */
const alreadyThere: ReadonlySet<string> = new Set(['42710', '42P04', '23505'])

/** Whether somebody else's transaction kept a role locked for too long. */
export const isLocked = (error: unknown): boolean => codeOf(error) === '55P03'

/** An internal error, so its text, which is not translated, is all that tells it apart. */
function isRace(error: unknown): boolean {
  return codeOf(error) === 'XX000' && error instanceof Error && /^tuple concurrently /.test(error.message)
}

function codeOf(error: unknown): string {
  return (error as { code?: string }).code ?? ''
}
