import type { ConnectionUse } from '../limits.ts'
import { type AdminConnection, ofUsers } from './admin-connection.ts'

export interface LockHolder {
  readonly database: number
  readonly pid: number
}

export interface Statistics {
  majorVersion(): Promise<number>
  /** Returns sizes in bytes by database name, without databases that do not exist. */
  sizes(names: readonly string[]): Promise<Map<string, number>>
  connections(name: string): Promise<number>
  /** Returns how many connections the settings leave for users. */
  userConnections(): Promise<number>
  /** Returns the most sessions of users together, and the sessions of these databases and of databases in use. */
  connectionUse(names: readonly string[]): Promise<{ most: number; uses: ConnectionUse[] }>
  /** Returns all sessions of the databases that hold more than `maxLocks` locks in total. */
  lockHolders(maxLocks: number): Promise<LockHolder[]>
}

/** The share of users' connections that sessions may have; the rest is for logins, including refused ones. */
const usable = 2 / 3

/** @param maxUserSessions the most sessions of users together; `null` for a share of all connections */
export function createStatistics(
  { query }: Pick<AdminConnection, 'query'>,
  maxUserSessions: number | null,
): Statistics {
  const userConnections = async (): Promise<number> => {
    const rows = await query<{ connections: number }>(
      `select current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
         - coalesce(current_setting('reserved_connections', true), '0')::integer as connections`,
    )
    return rows[0]?.connections ?? 0
  }
  return {
    async majorVersion() {
      const rows = await query<{ number: string }>(`select current_setting('server_version_num') as number`)
      return Math.floor(Number(rows[0]?.number) / 10_000)
    },

    async sizes(names) {
      const rows = await query<{ name: string; bytes: string }>(
        `select datname as name, pg_database_size(oid) as bytes from pg_database where datname = any($1)`,
        [names],
      )
      return new Map(rows.map(({ name, bytes }) => [name, Number(bytes)]))
    },

    async connections(name) {
      // The view also lists PostgreSQL's own background workers.
      const text = `select count(*) from pg_stat_activity where datname = $1 and backend_type = 'client backend'`
      const rows = await query<{ count: string }>(text, [name])
      return Number(rows[0]?.count ?? 0)
    },

    userConnections,

    async connectionUse(names) {
      const uses = await query<ConnectionUse>(
        `select rolname as name, rolconnlimit as limit, coalesce(sessions, 0)::integer as sessions
         from pg_roles left join (
           select usesysid as oid, count(*) as sessions from pg_stat_activity
           where backend_type = 'client backend' group by usesysid) as used using (oid)
         where ${ofUsers('rolname')} and (sessions > 0 or rolname = any($1))`,
        [names],
      )
      return { most: maxUserSessions ?? Math.floor((await userConnections()) * usable), uses }
    },

    // Calls functions that need no locks: when the lock table is full, reading a shared catalogue would fail.
    lockHolders: (maxLocks) =>
      query<LockHolder>(
        `with sessions as (select datid, pid, usesysid from pg_stat_get_activity(null)),
         own as (select usesysid from sessions where pid = pg_backend_pid()),
         held as (
           select s.datid from pg_lock_status() l join sessions s using (pid)
           where s.usesysid <> (select usesysid from own) group by s.datid having count(*) > $1
         )
         select s.datid::integer as database, s.pid from held join sessions s using (datid)`,
        [maxLocks],
      ),
  }
}
