import type { AdminConnection } from './admin-connection.ts'
import { ofUsers } from './blockers.ts'

/** Bounds for users' sessions, in seconds. Roles have shorter ones as settings, which users can change. */
export interface SessionLimits {
  /** How long a transaction may be open while its client does nothing. */
  readonly idleInTransaction: number
  /** How long a transaction may take: all databases of an instance keep what the oldest one may still see. */
  readonly transaction: number
  /** How long a session may do nothing. */
  readonly idle: number
}

/** The databases of sessions that were ended. */
export type EndedSessions = readonly string[]

/** Ends users' sessions that keep what all databases of an instance share. */
export interface Sessions {
  /** Ends the sessions that are beyond the limits. */
  endStale(limits: SessionLimits): Promise<EndedSessions>
  /** Ends the sessions of a database beyond a number: idle ones first, those that were idle longest, then the youngest. */
  endSurplus(database: string, keep: number): Promise<void>
  /** Returns how full the queue of notifications is, from 0 to 1. */
  notificationUsage(): Promise<number>
  /**
   * Ends the sessions that may keep the queue of notifications from being freed: it ends at the position of the listener
   * that has read least, and a listener reads between its transactions alone, if its client takes what it is sent. PostgreSQL does not
   * show who listens. So first the sessions that do nothing inside a transaction or whose client does not read; with
   * `all` those too that have been in a transaction for some seconds.
   */
  endNotificationHolders(all: boolean): Promise<EndedSessions>
}

/** Selects first: PostgreSQL may call a function of a condition before it looks at the others, which would end every session. */
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

/** A client that reads gets what it is sent in this time, and a transaction that is no obstacle is over. */
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
