import { sql } from 'kysely'
import type { CountRequest, RateLimit } from '../../http/authentication.ts'
import { createBatcher } from '../../platform/database/batcher.ts'
import type { Database } from '../../platform/database.ts'

interface Window {
  /** The number of requests, including the requests just counted. */
  readonly used: number
  /** The end of the window, in Unix seconds. */
  readonly reset: number
  readonly secondsLeft: number
}

/**
 * Counts requests by account in a window of one hour that begins with the first request. Requests that arrive while a
 * statement runs share the next statement; each still gets its own position in the window.
 *
 * The statement commits asynchronously: a crash of PostgreSQL loses the counts of the last fraction of a second, a kill
 * of the server loses no count.
 */
export function createRateLimiter({
  database,
  windows,
}: {
  readonly database: Database
  readonly windows: 'rate_windows' | 'session_rate_windows'
}): { readonly count: CountRequest } {
  /** Accounts that exceeded their limit: refused without a query until the window ends or the limit changes. */
  const exhausted = new Map<string, { readonly limit: number; readonly reset: number; readonly endsAt: number }>()

  const increment = createBatcher(async (accountIds: readonly string[]) => {
    const counts = new Map<string, number>()
    const positions = accountIds.map((id) => {
      const position = (counts.get(id) ?? 0) + 1
      counts.set(id, position)
      return position
    })
    const after = await addRequests(database, windows, counts)
    return accountIds.map((id, at): Window => {
      const window = after.get(id)
      if (window === undefined) throw new Error(`no requests of ${id} were counted`)
      return { ...window, used: window.used - (counts.get(id) ?? 0) + (positions[at] ?? 0) }
    })
  })

  return {
    async count(accountId, limit) {
      const blocked = exhausted.get(accountId)
      if (blocked !== undefined) {
        const left = (blocked.endsAt - performance.now()) / 1000
        if (left > 0 && blocked.limit === limit) return refusal(limit, blocked.reset, left)
        exhausted.delete(accountId)
      }
      const { used, reset, secondsLeft } = await increment(accountId)
      if (used <= limit) return { limit, remaining: limit - used, reset, retryAfter: undefined }
      exhausted.set(accountId, { limit, reset, endsAt: performance.now() + secondsLeft * 1000 })
      return refusal(limit, reset, secondsLeft)
    },
  }
}

function refusal(limit: number, reset: number, secondsLeft: number): RateLimit {
  return { limit, remaining: 0, reset, retryAfter: Math.max(1, Math.ceil(secondsLeft)) }
}

/** Adds to the windows of several accounts. Orders them by account, so that two servers cannot deadlock. */
async function addRequests(
  database: Database,
  windows: string,
  counts: ReadonlyMap<string, number>,
): Promise<Map<string, Window>> {
  // A window in the future began before the clock was set back. Concurrent statements differ by less than the minute.
  const isOpen = sql`(stored.started_at > now() - interval '1 hour' and stored.started_at < now() + interval '1 minute')`
  const { rows } = await sql<{ account_id: string; used: string; ends_at: number; seconds_left: number }>`
    insert into ${sql.table(windows)} as stored (account_id, started_at, used)
    select account_id, now(), requests
    from (select set_config('synchronous_commit', 'off', true)) as asynchronous,
      unnest(${[...counts.keys()]}::text[], ${[...counts.values()]}::integer[]) as added (account_id, requests)
    order by account_id
    on conflict (account_id) do update set
      started_at = case when ${isOpen} then stored.started_at else now() end,
      used = case when ${isOpen} then stored.used else 0 end + excluded.used
    returning account_id, used,
      extract(epoch from started_at + interval '1 hour')::float8 as ends_at,
      extract(epoch from started_at + interval '1 hour' - now())::float8 as seconds_left
  `.execute(database)
  return new Map(
    rows.map((row) => [
      row.account_id,
      { used: Number(row.used), reset: Math.ceil(row.ends_at), secondsLeft: row.seconds_left },
    ]),
  )
}
