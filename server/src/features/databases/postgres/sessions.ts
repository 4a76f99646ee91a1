import { type AdminConnection, ofUsers } from './admin-connection.ts'

/** Limits on users' sessions, in seconds. Roles have shorter limits as settings, which users can change. */
export interface SessionLimits {
  /** The time for which a transaction may be open while its client does nothing. */
  readonly idleInTransaction: number
  /** The longest transaction: all databases keep everything that the oldest transaction may see. */
  readonly transaction: number
  readonly idle: number
}

export type EndedSessions = readonly string[]

/** Ends users' sessions that hold back resources shared by all databases of an instance. */
export interface Sessions {
  endStale(limits: SessionLimits): Promise<EndedSessions>
  /** Ends the sessions of a database above a number: first the idle ones, longest idle first, then the youngest. */
  endSurplus(database: string, keep: number): Promise<void>
  /** Returns how full the queue of notifications is, from 0 to 1. */
  notificationUsage(): Promise<number>
  /**
   * Ends the sessions that may keep the queue of notifications from being freed. The slowest listener determines what
   * is kept, and a listener reads only between its transactions, and only if its client reads its data. PostgreSQL does
   * not show which sessions listen. So this ends sessions that are idle inside a transaction or whose client does not
   * read; with `all`, also sessions that have been in a transaction for some seconds.
   */
  endNotificationHolders(all: boolean): Promise<EndedSessions>
}

/** Selects first: PostgreSQL might call the function before it evaluates the conditions, for every session. */
const end = (condition: string): string => `
  with found as materialized (
    select pid, datname from pg_stat_activity
    where ${ofUsers('usename')} and pid <> pg_backend_pid() and (${condition}))
  select datname as name from found where pg_terminate_backend(pid)`

const endSurplus = `
  with surplus as materialized (
    select pid from pg_stat_activity where usename = $1 and backend_type = 'client backend'
    order by state = 'idle', case when state = 'idle' then state_change end desc, backend_start offset $2)
  select pg_terminate_backend(pid) from surplus`

const older = (column: string, seconds: number): string =>
  `${column} < clock_timestamp() - make_interval(secs => ${seconds})`

/** Within this time an active client reads its data, and a harmless transaction ends. */
const obstacleSeconds = 2
const longTransactionSeconds = 10

export function createSessions({ query }: Pick<AdminConnection, 'query'>): Sessions {
  const endWhere = async (condition: string): Promise<EndedSessions> =>
    (await query<{ name: string }>(end(condition))).map(({ name }) => name)
  return {
    endStale: ({ idleInTransaction, transaction, idle }) =>
      endWhere(`state like 'idle in transaction%' and ${older('state_change', idleInTransaction)}
        or ${older('xact_start', transaction)}
        or state = 'idle' and ${older('state_change', idle)}`),

    async endSurplus(database, keep) {
      await query(endSurplus, [database, keep])
    },

    async notificationUsage() {
      const [row] = await query<{ usage: number }>('select pg_notification_queue_usage() as usage')
      return row?.usage ?? 0
    },

    endNotificationHolders: (all) =>
      endWhere(`state like 'idle in transaction%' and ${older('state_change', obstacleSeconds)}
        or wait_event = 'ClientWrite' and ${older('state_change', obstacleSeconds)}
        ${all ? `or ${older('xact_start', longTransactionSeconds)}` : ''}`),
  }
}
