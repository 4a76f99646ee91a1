import pg from 'pg'
import type { DatabaseLimits } from '../plan-limits.ts'
import type { Restriction } from '../tables.ts'
import type { AdminConnection } from './admin-connection.ts'
import { isDuplicate, retryConcurrentUpdate } from './sql-errors.ts'

const { escapeIdentifier: id, escapeLiteral: literal } = pg

export interface Role {
  readonly name: string
  /** The SCRAM verifier of its password. */
  readonly verifier: string
  readonly limits: DatabaseLimits
}

/** Administers the roles of an instance. A role has the name of the one database that it owns. */
export interface Roles {
  /** Creates the role, or gives an existing one this password and these limits. A new one cannot log in yet. */
  ensure(role: Role, signal: AbortSignal): Promise<void>
  /**
   * Sets the timeouts of sessions for a role that has none, such as one of an earlier version of Fairlead, and its connection
   * limit where it has another one.
   */
  ensureLimits(name: string, connections: number, signal: AbortSignal): Promise<void>
  /** Changes how many sessions the role may have; those that it has go on. */
  limitConnections(name: string, connections: number, signal: AbortSignal): Promise<void>
  /** Lets the database of a role accept connections, of no other role. */
  allowConnections(name: string, signal: AbortSignal): Promise<void>
  /** Lets the role log in, and its database accept connections. */
  admit(name: string, signal: AbortSignal): Promise<void>
  /** Gives the role everything that `former` owns inside the database of its name. */
  takeOwnership(name: string, former: string, signal: AbortSignal): Promise<void>
  /** Applies a restriction to the role and ends the sessions of its database. */
  restrict(name: string, restriction: Restriction, signal: AbortSignal): Promise<void>
  drop(name: string, signal: AbortSignal): Promise<void>
}

/** Revokes the default grant first: every role may connect to a new database. */
const allowConnections = (name: string) =>
  `revoke all on database ${id(name)} from public; alter database ${id(name)} allow_connections true`

/** Users may change these. A check of the server has limits that they cannot change. */
const timeouts = { idle_in_transaction_session_timeout: '10min', idle_session_timeout: '1d' }

const setting = (name: string, key: string, value: string) => `alter role ${id(name)} set ${key} = ${literal(value)}`

const connectionLimit = (name: string, connections: number) => `alter role ${id(name)} connection limit ${connections}`

export function createRoles(admin: AdminConnection): Roles {
  const { run, runInside, query } = admin
  return {
    ensure: (role, signal) => ensureRole(admin, role, signal),

    async ensureLimits(name, connections, signal) {
      const [found] = await query<{ settings: readonly string[] | null; limit: number }>(
        'select rolconfig as settings, rolconnlimit as limit from pg_roles where rolname = $1',
        [name],
      )
      if (found === undefined) return
      const missing = Object.entries(timeouts)
        .filter(([key]) => !found.settings?.some((each) => each.startsWith(`${key}=`)))
        .map(([key, value]) => setting(name, key, value))
      if (found.limit !== connections) missing.push(connectionLimit(name, connections))
      if (missing.length > 0) await run(missing.join('; '), signal)
    },

    limitConnections: (name, connections, signal) => run(connectionLimit(name, connections), signal),

    allowConnections: (name, signal) => run(allowConnections(name), signal),
    admit: (name, signal) => run(`${allowConnections(name)}; alter role ${id(name)} login`, signal),

    async takeOwnership(name, former, signal) {
      await run(allowConnections(name), signal)
      const owned = await query<{ name: string }>(
        'select datname as name from pg_database where datdba = (select oid from pg_roles where rolname = $1)',
        [former],
      )
      // REASSIGN OWNED also hands over the former owner's databases; the same transaction gives them back.
      const giveBack = owned.map((database) => `alter database ${id(database.name)} owner to ${id(former)}`)
      const statements = [`reassign owned by ${id(former)} to ${id(name)}`, ...giveBack]
      await retryConcurrentUpdate(() => runInside(name, statements.join('; '), signal))
    },

    async restrict(name, restriction, signal) {
      const login = restriction === 'no_login' ? 'nologin' : 'login'
      const readOnly =
        restriction === 'none' ? 'reset default_transaction_read_only' : 'set default_transaction_read_only = on'
      // One transaction: when the database was deleted meanwhile, both statements fail and its role cannot log in again.
      await run(`alter role ${id(name)} ${login}; alter role ${id(name)} in database ${id(name)} ${readOnly}`, signal)
      // Open sessions keep the setting that they began with.
      await admin.endSessions(name)
    },

    async drop(name, signal) {
      // Databases that were created from a snapshot of this role's database may still have grants to the role.
      const elsewhere = await query<{ name: string }>(
        `select distinct d.datname as name from pg_shdepend s join pg_database d on d.oid = s.dbid
         where s.refclassid = 'pg_authid'::regclass and s.refobjid = (select oid from pg_roles where rolname = $1)`,
        [name],
      )
      for (const database of elsewhere) await runInside(database.name, `drop owned by ${id(name)}`, signal)
      await run(`drop role if exists ${id(name)}`, signal)
    },
  }
}

async function ensureRole(
  { run, isSuperuser }: AdminConnection,
  { name, verifier, limits }: Role,
  signal: AbortSignal,
): Promise<void> {
  const superuser = await isSuperuser()
  const options = `connection limit ${limits.connections} password ${literal(verifier)}`
  const settings = {
    work_mem: `${limits.workMemoryMb}MB`,
    ...timeouts,
    // Only a superuser may set these, so users cannot reset them.
    ...(superuser ? { temp_file_limit: `${limits.temporaryMb}MB`, log_min_messages: 'panic' } : {}),
  }
  const statements = [
    ...Object.entries(settings).map(([key, value]) => setting(name, key, value)),
    // An administrator who is no superuser must be a member of a role to make it the owner of a database.
    ...(superuser ? [] : [`grant ${id(name)} to current_user`]),
  ]
  const create = `create role ${id(name)} nologin nocreatedb nocreaterole ${options}`
  try {
    await run([create, ...statements].join('; '), signal)
  } catch (error) {
    if (!isDuplicate(error)) throw error
    await run([`alter role ${id(name)} ${options}`, ...statements].join('; '), signal)
  }
}
