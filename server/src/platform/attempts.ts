import { type RawBuilder, sql } from 'kysely'
import { createBatcher } from './database/batcher.ts'
import type { Database, Transaction } from './database.ts'

/** Limits how often something may be attempted, by key (an address, say), over all servers of a database. */
export interface AttemptLimiter {
  /** Counts one attempt. Resolves to `undefined` when it is allowed, otherwise to the whole seconds to wait. */
  take(key: string): Promise<number | undefined>
  /** Takes back a counted attempt, because it succeeded. */
  giveBack(key: string): Promise<void>
}

export interface AttemptLimit {
  /** Separates the keys of different limits. Stored in rows, so it must not change between versions. */
  readonly name: string
  readonly most: number
  readonly windowMs: number
}

interface Window {
  readonly granted: number
  readonly secondsLeft: number
}

const mostRemembered = 10_000

/**
 * Allows `most` attempts in a window that begins with the first one. Refused attempts are not counted. The counts are
 * rows, and the clock is the database's, so it does not matter on which server an attempt arrives. Attempts that arrive
 * while a statement runs share the next one.
 *
 * The statement commits asynchronously: if the server is killed, no count is lost; if PostgreSQL crashes, the counts of
 * its last fraction of a second are. `takeWithin` counts in a transaction of the caller instead.
 */
export function createAttemptLimiter(database: Database, limit: AttemptLimit): AttemptLimiter {
  const take = createBatcher(async (keys: readonly string[]) => {
    const counts = new Map<string, number>()
    const positions = keys.map((key) => {
      const position = (counts.get(key) ?? 0) + 1
      counts.set(key, position)
      return position
    })
    const windows = await addAttempts(database, limit, counts, asynchronously)
    return keys.map((key, at) => {
      return secondsToWait(windows.get(key), positions[at] ?? 0)
    })
  })
  return {
    take,
    async giveBack(key) {
      await sql`update attempts set used = used - 1 where name = ${limit.name} and key = ${key} and used > 0`.execute(
        database,
      )
    },
  }
}

/**
 * Answers keys that were refused from memory until their windows end, so that further attempts of a client cost no
 * statements. Only for limits whose attempts are never given back: another server could give back an attempt, and this
 * server would not see it.
 */
export function rememberRefusals({ take }: Pick<AttemptLimiter, 'take'>): Pick<AttemptLimiter, 'take'> {
  const refused = new Map<string, number>()
  return {
    async take(key) {
      const left = ((refused.get(key) ?? 0) - performance.now()) / 1000
      if (left > 0) return Math.ceil(left)
      refused.delete(key)
      const retryAfter = await take(key)
      if (retryAfter === undefined) return undefined
      const oldest = refused.size >= mostRemembered ? refused.keys().next().value : undefined
      if (oldest !== undefined) refused.delete(oldest)
      refused.set(key, performance.now() + retryAfter * 1000)
      return retryAfter
    },
  }
}

/**
 * Counts one attempt, unless the transaction rolls back. The key's row stays locked until then. Resolves as
 * `AttemptLimiter.take` does.
 */
export async function takeWithin(
  transaction: Transaction,
  limit: AttemptLimit,
  key: string,
): Promise<number | undefined> {
  const windows = await addAttempts(transaction, limit, new Map([[key, 1]]), sql``)
  return secondsToWait(windows.get(key), 1)
}

/** @param position among the attempts of one statement, from 1 */
function secondsToWait(window: Window | undefined, position: number): number | undefined {
  if (window === undefined) throw new Error('the attempts of a key were not counted')
  return position <= window.granted ? undefined : Math.max(1, Math.ceil(window.secondsLeft))
}

/** Lets the statement's transaction commit asynchronously. */
const asynchronously = sql`(select set_config('synchronous_commit', 'off', true)) as asynchronous,`

export async function forgetAttempts(database: Database): Promise<void> {
  await sql`delete from attempts where ends_at <= now()`.execute(database)
}

/**
 * Adds to the windows of several keys. Ordered by key, so that two servers cannot deadlock.
 *
 * @param commit `asynchronously`, or empty when the transaction contains other changes
 */
async function addAttempts(
  on: Database | Transaction,
  { name, most, windowMs }: AttemptLimit,
  counts: ReadonlyMap<string, number>,
  commit: RawBuilder<unknown>,
): Promise<Map<string, Window>> {
  const length = sql`make_interval(secs => ${windowMs / 1000})`
  // A window that ends too late began before the clock was set back. A minute is more than the difference between
  // concurrent statements.
  const isOpen = sql`(known.ends_at > now() and known.ends_at <= now() + ${length} + interval '1 minute')`
  const used = sql`case when ${isOpen} then known.used else 0 end`
  const granted = sql`least(excluded.granted, ${most}::integer - ${used})`
  const { rows } = await sql<{ key: string; granted: number; seconds_left: number }>`
    insert into attempts as known (name, key, used, granted, ends_at)
    select ${name}, key, least(taken, ${most}::integer), least(taken, ${most}::integer),
      now() + ${length}
    from ${commit} unnest(${[...counts.keys()]}::text[], ${[...counts.values()]}::integer[]) as added (key, taken)
    order by key
    on conflict (name, key) do update set
      used = ${used} + ${granted},
      granted = ${granted},
      ends_at = case when ${isOpen} then known.ends_at else excluded.ends_at end
    returning key, granted, extract(epoch from ends_at - now())::float8 as seconds_left
  `.execute(on)
  return new Map(rows.map((row) => [row.key, { granted: row.granted, secondsLeft: row.seconds_left }]))
}
