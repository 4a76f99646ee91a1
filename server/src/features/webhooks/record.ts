import { sql } from 'kysely'
import { sleepUntilAborted } from '../../platform/abort.ts'
import { notify } from '../../platform/database/notifications.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { changedChannel } from './outbox.ts'
import { type Health, hasFailedForGood, healthAfter, type Next } from './retries.ts'
import { type SendResult, storableText } from './send.ts'
import type { WebhooksTables } from './tables.ts'

export interface Recorded {
  /** True when the delivery is due again at once, regardless of the attempt's result. */
  readonly sendAgain: boolean
}

export interface Recorder {
  /** Resolves when the attempt is recorded. Waits while the database is unavailable; rejects only after `stop`. */
  record(attempt: AttemptRecord): Promise<Recorded>
  /** Gives up unwritten attempts; they are repeated after the next start. */
  stop(): void
}

const batchSize = 100
const retryMs = 1_000

/**
 * Records attempts: the attempt itself, the delivery's next due time and the endpoint's health in one transaction, so
 * that a crash may repeat an attempt but never loses one. Attempts that end while a transaction runs share the next
 * transaction.
 */
export function createRecorder({ database, logger }: { database: Database; logger: Logger }): Recorder {
  const waiting: { attempt: AttemptRecord; done: PromiseWithResolvers<Recorded> }[] = []
  const stopping = new AbortController()
  let writing = false

  const write = async (batch: readonly AttemptRecord[]): Promise<ReadonlySet<string>> => {
    for (;;) {
      try {
        const written = await database.transaction().execute((transaction) => writeBatch(transaction, batch))
        for (const { id, reason } of written.disabled) logger.warn({ webhook: id, reason }, 'webhook disabled')
        return written.sendAgain
      } catch (error) {
        logger.warn({ err: error }, 'webhook attempts cannot be recorded yet')
        await sleepUntilAborted(retryMs, stopping.signal)
        stopping.signal.throwIfAborted()
      }
    }
  }

  const writeAll = async (): Promise<void> => {
    writing = true
    while (waiting.length > 0) {
      const batch = waiting.splice(0, batchSize)
      try {
        const sendAgain = await write(batch.map(({ attempt }) => attempt))
        for (const { attempt, done } of batch) done.resolve({ sendAgain: sendAgain.has(attempt.deliveryId) })
      } catch (error) {
        for (const { done } of batch) done.reject(error)
      }
    }
    writing = false
  }

  return {
    record(attempt) {
      const done = Promise.withResolvers<Recorded>()
      waiting.push({ attempt, done })
      if (!writing) void writeAll()
      return done.promise
    },
    stop: () => stopping.abort(new Error('the server is stopping')),
  }
}

async function writeBatch(
  transaction: Transaction,
  batch: readonly AttemptRecord[],
): Promise<{ disabled: DisabledWebhook[]; sendAgain: ReadonlySet<string> }> {
  // Locks webhooks before deliveries, in the same order as the deletion of a webhook.
  const { disabled, urls } = await updateHealth(transaction, batch)
  // A 410 from a replaced URL does not end the delivery: it is sent to the current URL.
  const moved = new Set(batch.filter((attempt) => isGone(attempt) && urls.get(attempt.webhookId) !== attempt.url))
  const records = batch.map((attempt) =>
    moved.has(attempt) ? { ...attempt, next: { status: 'pending', at: new Date() } as const } : attempt,
  )
  const restarted = await writeAttempts(transaction, records)
  return { disabled, sendAgain: new Set([...restarted, ...[...moved].map(({ deliveryId }) => deliveryId)]) }
}

export interface AttemptRecord {
  readonly deliveryId: string
  readonly webhookId: string
  /** A redelivery during the attempt begins another round, whose schedule this attempt does not change. */
  readonly round: number
  readonly at: Date
  readonly durationMs: number
  readonly url: string
  readonly requestHeaders: Readonly<Record<string, string>>
  readonly result: SendResult
  readonly next: Next
}

const isGone = ({ next }: AttemptRecord): boolean => next.status === 'failed' && next.gone

const maxErrorBytes = 1_000

/**
 * Writes attempts and the new state of their deliveries in one statement, and skips deliveries that were deleted.
 * Returns the ids of deliveries that were redelivered during the attempt, which are due already.
 */
async function writeAttempts(
  transaction: Transaction,
  attempts: readonly AttemptRecord[],
): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ id: string }>`
    with made as (
      select * from jsonb_to_recordset(${JSON.stringify(attempts.map(rowOf))}::jsonb) as made (
        delivery_id text, round integer, at timestamptz, duration_ms integer, url text, request_headers jsonb,
        status integer, response_headers jsonb, response_body text, error text,
        failed boolean, next_status text, next_attempt_at timestamptz
      )
    ), recorded as (
      update deliveries set
        attempts = attempts + 1,
        last_status = made.status,
        last_error = made.error,
        failures = failures + case when deliveries.round = made.round and made.failed then 1 else 0 end,
        status = case when deliveries.round = made.round then made.next_status else deliveries.status end,
        next_attempt_at =
          case when deliveries.round = made.round then made.next_attempt_at else deliveries.next_attempt_at end,
        finished_at = case when deliveries.round = made.round and made.next_attempt_at is null then now() end
      from made where deliveries.id = made.delivery_id
      returning deliveries.id, deliveries.attempts as number, deliveries.round <> made.round as restarted
    ), logged as (
      insert into webhook_attempts (
        delivery_id, number, at, duration_ms, url, request_headers, status, response_headers, response_body, error
      )
      select recorded.id, recorded.number, at, duration_ms, url, request_headers, status, response_headers,
        response_body, error
      from recorded join made on made.delivery_id = recorded.id
    )
    select id from recorded where restarted
  `.execute(transaction)
  return new Set(rows.map(({ id }) => id))
}

function rowOf({ result, next, ...attempt }: AttemptRecord): Record<string, unknown> {
  return {
    delivery_id: attempt.deliveryId,
    round: attempt.round,
    at: attempt.at.toISOString(),
    duration_ms: Math.round(attempt.durationMs),
    url: attempt.url,
    request_headers: attempt.requestHeaders,
    status: result.answer?.status ?? null,
    response_headers: result.answer?.headers ?? null,
    response_body: result.answer?.body ?? null,
    error: result.error === null ? null : storableText(Buffer.from(result.error), maxErrorBytes),
    failed: !result.ok,
    next_status: next.status,
    next_attempt_at: next.status === 'pending' ? next.at.toISOString() : null,
  }
}

interface DisabledWebhook {
  readonly id: string
  readonly reason: 'gone' | 'failures'
}

/**
 * Updates the health of these attempts' endpoints. Returns the webhooks that it disabled, and the current URLs of all
 * endpoints with a failed attempt.
 */
async function updateHealth(
  transaction: Transaction,
  attempts: readonly AttemptRecord[],
): Promise<{ disabled: DisabledWebhook[]; urls: ReadonlyMap<string, string> }> {
  const trx = transaction.withTables<WebhooksTables>()
  const byWebhook = Map.groupBy(attempts, (attempt) => attempt.webhookId)
  const failed = new Set(attempts.filter(({ result }) => !result.ok).map(({ webhookId }) => webhookId))
  // A success does not change the row of a healthy endpoint.
  const rows = await trx
    .selectFrom('webhooks')
    .select(['id', 'url', 'status', 'failing_since', 'failed_attempts'])
    .where('id', 'in', [...byWebhook.keys()])
    .where((where) => where.or([where('failing_since', 'is not', null), where('id', 'in', ['', ...failed])]))
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()
  const disabled: DisabledWebhook[] = []
  for (const row of rows) {
    const own = byWebhook.get(row.id) ?? []
    const before: Health = { failingSince: row.failing_since, failedAttempts: row.failed_attempts }
    const health = own.reduce((now, { result, at }) => healthAfter(now, result.ok, at), before)
    const reason = row.status === 'enabled' ? reasonToDisable(row.url, own, health) : undefined
    await trx
      .updateTable('webhooks')
      .set({ failing_since: health.failingSince, failed_attempts: health.failedAttempts })
      .$if(reason !== undefined, (query) => query.set({ status: 'disabled', disabled_reason: reason ?? null }))
      .where('id', '=', row.id)
      .execute()
    if (reason === undefined) continue
    await notify(transaction, changedChannel, row.id)
    disabled.push({ id: row.id, reason })
  }
  return { disabled, urls: new Map(rows.map(({ id, url }) => [id, url])) }
}

function reasonToDisable(
  url: string,
  attempts: readonly AttemptRecord[],
  health: Health,
): DisabledWebhook['reason'] | undefined {
  if (attempts.some((attempt) => isGone(attempt) && attempt.url === url)) return 'gone'
  return hasFailedForGood(health, new Date()) ? 'failures' : undefined
}

const removedAtOnce = 1_000

/**
 * Removes deliveries created before `before`, with their attempts, and then events without deliveries. Pending
 * deliveries of enabled webhooks stay. Rows are deleted in batches, so that no row is locked for long.
 */
export async function removeOld(database: Database, before: Date, signal: AbortSignal): Promise<void> {
  const oldDeliveries = sql`
    delete from deliveries where id in (
      select deliveries.id from deliveries join webhooks on webhooks.id = webhook_id
      where deliveries.created_at < ${before} and (deliveries.status <> 'pending' or webhooks.status = 'disabled')
      limit ${removedAtOnce}
    )`
  const oldEvents = sql`
    delete from events where id in (
      select id from events where created_at < ${before}
        and not exists (select from deliveries where event_id = events.id)
      limit ${removedAtOnce}
    )`
  for (const statement of [oldDeliveries, oldEvents]) {
    let removed = removedAtOnce
    while (removed === removedAtOnce && !signal.aborted) {
      removed = Number((await statement.execute(database)).numAffectedRows ?? 0)
    }
  }
}

/**
 * Removes the oldest deliveries, also pending deliveries, of accounts above their limit, and then their events without
 * deliveries.
 */
export async function removeExcess(
  database: Database,
  mostOf: (accountId: string) => Promise<number>,
  signal: AbortSignal,
): Promise<void> {
  const { rows } = await sql<{ account_id: string; count: string }>`
    select account_id, count(*) as count from deliveries join webhooks on webhooks.id = webhook_id
    group by account_id`.execute(database)
  for (const { account_id, count } of rows) {
    const most = await mostOf(account_id)
    for (let left = Number(count) - most; left > 0 && !signal.aborted; left -= removedAtOnce) {
      await sql`delete from deliveries where id in (
        select deliveries.id from deliveries join webhooks on webhooks.id = webhook_id
        where account_id = ${account_id} order by deliveries.id limit ${Math.min(left, removedAtOnce)}
      )`.execute(database)
    }
    if (Number(count) <= most) continue
    await sql`delete from events where account_id = ${account_id} and created_at < now() - interval '1 minute'
      and not exists (select from deliveries where event_id = events.id)`.execute(database)
  }
}
