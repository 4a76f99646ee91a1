import pg from 'pg'
import type { DatabaseLimits } from '../limits.ts'
import type { Restriction } from '../rows.ts'
import { type AdminConnection, isDuplicate, retryConcurrentUpdate } from './admin-connection.ts'

const { escapeIdentifier: id, escapeLiteral: literal } = pg

export interface Role {
  readonly name: string
  /** The SCRAM verifier of its password. */
  readonly verifier: string
  readonly limits: DatabaseLimits
}

/** A role that works as another role: the owner of the database owns what the sessions of the second role create. */
export interface SecondRole {
  readonly name: string
  readonly owner: string
  readonly verifier: string
  readonly connections: number
}

/**
 * Administers the roles of an instance. A database has an owner role of the same name. A second role may also log in:
 * it is a member of the owner, has the owner's settings, and becomes the owner when a session begins.
 */
export interface Roles {
  /**
   * Creates the role, or gives an existing role this password and the limits that users cannot change. A new role
   * cannot log in yet.
   */
  ensure(role: Role, signal: AbortSignal): Promise<void>
  ensureSecond(role: SecondRole, signal: AbortSignal): Promise<void>
  /** Copies the owners' settings to second roles where they differ, because users change only the owner's settings. */
  copySettings(roles: readonly Pick<SecondRole, 'name' | 'owner'>[], signal: AbortSignal): Promise<void>
  /** Lets a role log in until this time; `null` for no end. */
  allowUntil(name: string, until: Date | null, signal: AbortSignal): Promise<void>
  /**
   * Ends a login to the database of `owner`, with all its sessions. Objects of a second role in that database go to the
   * owner; a second role has objects only if a session did not become the owner.
   */
  endLogin(name: string, owner: string, signal: AbortSignal): Promise<void>
  /** Changes the limit for all sessions of a database; -1 means no limit. A limit that the owner has set stays. */
  limitDatabase(name: string, from: number, to: number, signal: AbortSignal): Promise<void>
  /** Corrects the connection limit of a role that exists. */
  ensureConnections(name: string, connections: number, signal: AbortSignal): Promise<void>
  /** Changes how many sessions the role may have; its present sessions continue. */
  limitConnections(name: string, connections: number, signal: AbortSignal): Promise<void>
  /** Lets the database of a role accept connections, but only from that role. */
  allowConnections(name: string, signal: AbortSignal): Promise<void>
  /** Lets these roles log in to a database, and opens the database for connections. */
  admit(name: string, logins: readonly string[], signal: AbortSignal): Promise<void>
  /** Gives the role everything that former owners own inside the database of its name. */
  takeOwnership(name: string, former: readonly string[], signal: AbortSignal): Promise<void>
  /** Applies a restriction to the roles that log in to a database and ends its sessions. */
  restrict(name: string, logins: readonly string[], restriction: Restriction, signal: AbortSignal): Promise<void>
  drop(name: string, signal: AbortSignal): Promise<void>
}

/** Revokes the default grant first, which lets every role connect to a new database. */
const allowConnections = (name: string) =>
  `revoke all on database ${id(name)} from public; alter database ${id(name)} allow_connections true`

/** Users may change these timeouts. A periodic check enforces limits that users cannot change. */
const timeouts = { idle_in_transaction_session_timeout: '10min', idle_session_timeout: '1d' }

const setting = (name: string, key: string, value: string) => `alter role ${id(name)} set ${key} = ${literal(value)}`

const connectionLimit = (name: string, connections: number) => `alter role ${id(name)} connection limit ${connections}`

export function createRoles(admin: AdminConnection): Roles {
  const { run, runInside, query } = admin
  return {
    ensure: (role, signal) => ensureOwner(admin, role, signal),
    ensureSecond: (role, signal) => ensureSecond(admin, role, signal),
    copySettings: (roles, signal) => copySettings(admin, roles, signal),

    async allowUntil(name, until, signal) {
      const time = until === null ? 'infinity' : until.toISOString()
      const differs = 'select from pg_roles where rolname = $1 and rolvaliduntil is distinct from $2::timestamptz'
      if ((await query(differs, [name, time])).length > 0)
        await run(`alter role ${id(name)} valid until ${literal(time)}`, signal)
    },

    async endLogin(name, owner, signal) {
      await run(`alter role ${id(name)} nologin password null`, signal)
      await query('select pg_terminate_backend(pid) from pg_stat_activity where usename = $1', [name])
      const open = 'select from pg_database where datname = $1 and datallowconn'
      if (name !== owner && (await query(open, [owner])).length > 0)
        await runInside(owner, `reassign owned by ${id(name)} to ${id(owner)}`, signal)
    },

    async limitDatabase(name, from, to, signal) {
      const text = 'select from pg_database where datname = $1 and datconnlimit = $2'
      if ((await query(text, [name, from])).length > 0)
        await run(`alter database ${id(name)} connection limit ${to}`, signal)
    },

    async ensureConnections(name, connections, signal) {
      const differs = 'select from pg_roles where rolname = $1 and rolconnlimit <> $2'
      if ((await query(differs, [name, connections])).length > 0) await run(connectionLimit(name, connections), signal)
    },

    limitConnections: (name, connections, signal) => run(connectionLimit(name, connections), signal),

    allowConnections: (name, signal) => run(allowConnections(name), signal),
    admit: (name, logins, signal) =>
      run([allowConnections(name), ...logins.map((login) => `alter role ${id(login)} login`)].join('; '), signal),

    async takeOwnership(name, former, signal) {
      await run(allowConnections(name), signal)
      const owned = await query<{ name: string; owner: string }>(
        `select datname as name, rolname as owner from pg_database join pg_roles on pg_roles.oid = datdba
         where rolname = any($1)`,
        [former],
      )
      // REASSIGN OWNED also transfers the former owner's databases; the same transaction gives them back.
      const giveBack = owned.map((database) => `alter database ${id(database.name)} owner to ${id(database.owner)}`)
      const statements = [`reassign owned by ${former.map(id).join(', ')} to ${id(name)}`, ...giveBack]
      await retryConcurrentUpdate(() => runInside(name, statements.join('; '), signal))
    },

    async restrict(name, logins, restriction, signal) {
      const login = restriction === 'no_login' ? 'nologin' : 'login'
      const readOnly =
        restriction === 'none' ? 'reset default_transaction_read_only' : 'set default_transaction_read_only = on'
      // The owner always gets the setting, because a second role copies the owner's settings.
      const statements = [
        ...logins.map((each) => `alter role ${id(each)} ${login}`),
        ...[...new Set([name, ...logins])].map((each) => `alter role ${id(each)} in database ${id(name)} ${readOnly}`),
      ]
      // One transaction: if the database was deleted in between, all statements fail and no role can log in again.
      await run(statements.join('; '), signal)
      // Open sessions keep their initial setting.
      await admin.endSessions(name)
    },

    async drop(name, signal) {
      // Databases from a snapshot of this role's database may still have grants to the role.
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

async function ensureOwner(
  { run, isSuperuser }: AdminConnection,
  { name, verifier, limits }: Role,
  signal: AbortSignal,
): Promise<void> {
  const superuser = await isSuperuser()
  const options = `connection limit ${limits.connections} password ${literal(verifier)}`
  // Only a superuser may set these, so users cannot reset them.
  const fixed = superuser ? { temp_file_limit: `${limits.temporaryMb}MB`, log_min_messages: 'panic' } : {}
  const settings = (all: Readonly<Record<string, string>>) =>
    Object.entries(all).map(([key, value]) => setting(name, key, value))
  const statements = [
    ...settings(fixed),
    // An administrator without superuser rights must be a member of a role to make it the owner of a database.
    ...(superuser ? [] : [`grant ${id(name)} to current_user`]),
  ]
  const create = `create role ${id(name)} nologin nocreatedb nocreaterole ${options}`
  try {
    const first = settings({ work_mem: `${limits.workMemoryMb}MB`, ...timeouts })
    await run([create, ...first, ...statements].join('; '), signal)
  } catch (error) {
    if (!isDuplicate(error)) throw error
    // Users may have changed the other settings.
    await run([`alter role ${id(name)} ${options}`, ...statements].join('; '), signal)
  }
}

async function ensureSecond(
  { run, isSuperuser }: AdminConnection,
  { name, owner, verifier, connections }: SecondRole,
  signal: AbortSignal,
): Promise<void> {
  const options = `connection limit ${connections} password ${literal(verifier)} valid until 'infinity'`
  const create = `create role ${id(name)} nologin nocreatedb nocreaterole ${options} in role ${id(owner)}`
  const grant = (await isSuperuser()) ? [] : [`grant ${id(name)} to current_user`]
  // Set here, too, in case the other settings cannot be copied.
  const becomes = setting(name, 'role', owner)
  try {
    await run([create, ...grant, becomes].join('; '), signal)
  } catch (error) {
    if (!isDuplicate(error)) throw error
    await run([`alter role ${id(name)} ${options}`, becomes].join('; '), signal)
  }
}

interface Settings {
  readonly role: string
  /** The database that the settings are for; `null` for all databases. */
  readonly database: string | null
  readonly settings: readonly string[]
}

/** The settings that are lists of names. PostgreSQL would quote a literal value of these as a single name. */
const lists: ReadonlySet<string> = new Set([
  'search_path',
  'temp_tablespaces',
  'local_preload_libraries',
  'session_preload_libraries',
])

async function copySettings(
  { query, run }: AdminConnection,
  roles: readonly Pick<SecondRole, 'name' | 'owner'>[],
  signal: AbortSignal,
): Promise<void> {
  const names = roles.flatMap(({ name, owner }) => [name, owner])
  const found = await query<Settings>(
    `select rolname as role, datname as database, setconfig as settings from pg_db_role_setting
     join pg_roles on pg_roles.oid = setrole left join pg_database on pg_database.oid = setdatabase
     where rolname = any($1) and (setdatabase = 0 or datname is not null)`,
    [names],
  )
  const of = (name: string) =>
    found
      .filter(({ role }) => role === name)
      .flatMap(({ database, settings }) => settings.map((each) => ({ database, each })))
  const failures: unknown[] = []
  for (const { name, owner } of roles) {
    const keyed = (all: readonly { database: string | null; each: string }[]) =>
      all.map(({ database, each }) => JSON.stringify([database, each])).sort()
    // A session of the second role becomes the owner, even if the owner has a different `role` setting.
    const copied = of(owner).filter(({ each }) => !each.startsWith('role='))
    const desired = [...copied, { database: null, each: `role=${owner}` }]
    const has = of(name)
    if (keyed(desired).join() === keyed(has).join()) continue
    const resets = new Set(has.map(({ database }) => `alter role ${id(name)}${inDatabase(database)} reset all`))
    const sets = desired.map(({ database, each }) => copyOfSetting(name, database, each))
    // If one role refuses a setting, the other roles still get theirs.
    await run([...resets, ...sets].join('; '), signal).catch((error: unknown) => failures.push(error))
  }
  if (failures.length > 0) throw failures[0]
}

const inDatabase = (database: string | null): string => (database === null ? '' : ` in database ${id(database)}`)

function copyOfSetting(name: string, database: string | null, text: string): string {
  const [key = '', value = ''] = [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)]
  const target = `alter role ${id(name)}${inDatabase(database)} set ${key.split('.').map(id).join('.')}`
  if (!lists.has(key.toLowerCase())) return `${target} = ${literal(value)}`
  return `select pg_catalog.set_config(${literal(key)}, ${literal(value)}, true); ${target} from current`
}
