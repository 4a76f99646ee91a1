import { sql } from 'kysely'
import type { RateLimit } from '../http/rate-limit.ts'
import { createBatcher } from '../platform/database/batcher.ts'
import type { Database } from '../platform/database.ts'

interface Window {
  /** Requests in it, those just counted included. */
  readonly used: number
  /** Unix seconds. */
  readonly reset: number
  readonly secondsLeft: number
}

/**
 * Counts requests by account in a window of an hour that begins with the first one. Requests that come while a
 * statement is under way share the next one, and each still gets a number of its own.
 *
 * The statement does not wait for the disk: a server that is killed loses nothing, a PostgreSQL that crashes loses what
 * was counted in its last fraction of a second.
 */
export function createRateLimiter({ database }: { database: Database }): {
  /** One more request of an account that may make so many an hour. */
  count(accountId: string, limit: number): Promise<RateLimit>
} {
  /** Accounts that have used all of their window: refused without a question until it ends or the limit changes. */
  const exhausted = new Map<string, { readonly limit: number; readonly reset: number; readonly endsAt: number }>()

  const increment = createBatcher(async (accountIds: readonly string[]) => {
    const counts = new Map<string, number>()
    const places = accountIds.map((id) => {
      const place = (counts.get(id) ?? 0) + 1
      counts.set(id, place)
      return place
    })
    const windows = await add(database, counts)
    return accountIds.map((id, at): Window => {
      const window = windows.get(id)
      if (window === undefined) throw new Error(`no requests of ${id} were counted`)
      return { ...window, used: window.used - (counts.get(id) ?? 0) + (places[at] ?? 0) }
    })
  })

  return {
    async count(accountId, limit) {
      const known = exhausted.get(accountId)
      if (known !== undefined) {
        const left = (known.endsAt - performance.now()) / 1000
        if (left > 0 && known.limit === limit) return refusal(limit, known.reset, left)
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

/** Accounts in order, so that two servers at work cannot wait for one another. */
async function add(database: Database, counts: ReadonlyMap<string, number>): Promise<Map<string, Window>> {
  const { rows } = await sql<{ account_id: string; used: string; ends_at: number; seconds_left: number }>`
    insert into rate_windows as known (account_id, started_at, used)
    select account_id, now(), requests
    from (select set_config('synchronous_commit', 'off', true)) as unhurried,
      unnest(${[...counts.keys()]}::text[], ${[...counts.values()]}::integer[]) as asked (account_id, requests)
    order by account_id
    on conflict (account_id) do update set
      started_at = case when known.started_at > now() - interval '1 hour' then known.started_at else now() end,
      used = case when known.started_at > now() - interval '1 hour' then known.used else 0 end + excluded.used
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
