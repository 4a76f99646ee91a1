import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { notify } from '../platform/database/notifications.ts'
import type { Database, Transaction } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import { storableText } from './answer.ts'
import { changedChannel } from './outbox.ts'
import { type Health, healthAfter, isDead, type Next } from './schedule.ts'
import type { SendResult } from './send.ts'
import type { WebhooksTables } from './tables.ts'

/** An attempt that was made, and what follows it. */
export interface Made {
  readonly deliveryId: string
  readonly webhookId: string
  /** The round that it belongs to: a redelivery meanwhile has begun another one, whose schedule is left alone. */
  readonly round: number
  readonly at: Date
  readonly durationMs: number
  readonly url: string
  readonly requestHeaders: Readonly<Record<string, string>>
  readonly result: SendResult
  readonly next: Next
}

export interface Recorded {
  /** The delivery was to be sent again meanwhile: it is due, whatever the attempt came to. */
  readonly overtaken: boolean
}

export interface Recorder {
  /** Resolves when the attempt is recorded. Waits for a database that is away; rejects only after `stop`. */
  record(made: Made): Promise<Recorded>
  /** Gives up on what cannot be written: those attempts are made again. */
  stop(): void
}

const batchSize = 100
const againMs = 1_000
const longestError = 1_000

/**
 * Writes attempts: the record, the delivery's next due time and the receiver's health in one transaction, so that a
 * crash may repeat an attempt but never loses one. Those that end while a transaction is under way share the next one.
 */
export function createRecorder({ database, logger }: { database: Database; logger: Logger }): Recorder {
  const waiting: { made: Made; done: PromiseWithResolvers<Recorded> }[] = []
  const stopping = new AbortController()
  let writing = false

  /** Gives the ids of the deliveries whose attempts were overtaken. */
  const write = async (batch: readonly Made[]): Promise<ReadonlySet<string>> => {
    for (;;) {
      try {
        const written = await database.transaction().execute((transaction) => writeBatch(transaction, batch))
        for (const { id, reason } of written.disabled) logger.warn({ webhook: id, reason }, 'webhook receiver disabled')
        return written.overtaken
      } catch (error) {
        logger.warn({ err: error }, 'webhook attempts cannot be recorded yet')
        await sleep(againMs, undefined, { signal: stopping.signal })
      }
    }
  }

  const work = async (): Promise<void> => {
    writing = true
    while (waiting.length > 0) {
      const batch = waiting.splice(0, batchSize)
      try {
        const overtaken = await write(batch.map(({ made }) => made))
        for (const { made, done } of batch) done.resolve({ overtaken: overtaken.has(made.deliveryId) })
      } catch (error) {
        for (const { done } of batch) done.reject(error)
      }
    }
    writing = false
  }

  return {
    record(made) {
      const done = Promise.withResolvers<Recorded>()
      waiting.push({ made, done })
      if (!writing) void work()
      return done.promise
    },
    stop: () => stopping.abort(new Error('the server is stopping')),
  }
}

interface Disabled {
  readonly id: string
  readonly reason: 'gone' | 'failures'
}

async function writeBatch(transaction: Transaction, batch: readonly Made[]) {
  // Receivers before deliveries, as their deletion locks them.
  const { disabled, addresses } = await writeHealth(transaction, batch)
  // What an address says that the receiver no longer has ends nothing: the delivery goes to the new one.
  const moved = batch.filter((made) => isGone(made) && addresses.get(made.webhookId) !== made.url)
  const settled = batch.map((made) =>
    moved.includes(made) ? { ...made, next: { status: 'pending', at: new Date() } as const } : made,
  )
  const overtaken = await writeAttempts(transaction, settled)
  return { disabled, overtaken: new Set([...overtaken, ...moved.map(({ deliveryId }) => deliveryId)]) }
}

const isGone = ({ next }: Made): boolean => next.status === 'failed' && next.gone

/** Gives the receivers that it disabled, and the present addresses of all that something failed at. */
async function writeHealth(
  transaction: Transaction,
  batch: readonly Made[],
): Promise<{ disabled: Disabled[]; addresses: ReadonlyMap<string, string> }> {
  const trx = transaction.withTables<WebhooksTables>()
  const byWebhook = Map.groupBy(batch, (made) => made.webhookId)
  const failed = new Set(batch.filter(({ result }) => !result.ok).map(({ webhookId }) => webhookId))
  const rows = await trx
    .selectFrom('webhooks')
    .select(['id', 'url', 'status', 'failing_since', 'failed_attempts'])
    .where('id', 'in', [...byWebhook.keys()])
    .where((where) => where.or([where('failing_since', 'is not', null), where('id', 'in', ['', ...failed])]))
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()
  const disabled: Disabled[] = []
  for (const row of rows) {
    const attempts = byWebhook.get(row.id) ?? []
    const before: Health = { failingSince: row.failing_since, failedAttempts: row.failed_attempts }
    const health = attempts.reduce((now, { result, at }) => healthAfter(now, result.ok, at), before)
    const reason = row.status === 'enabled' ? reasonToDisable(row.url, attempts, health) : undefined
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
  return { disabled, addresses: new Map(rows.map(({ id, url }) => [id, url])) }
}

function reasonToDisable(address: string, attempts: readonly Made[], health: Health): Disabled['reason'] | undefined {
  if (attempts.some((made) => isGone(made) && made.url === address)) return 'gone'
  return isDead(health, new Date()) ? 'failures' : undefined
}

/** One statement for all: a delivery that was deleted meanwhile is passed over. */
async function writeAttempts(transaction: Transaction, batch: readonly Made[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ id: string }>`
    with made as (
      select * from jsonb_to_recordset(${JSON.stringify(batch.map(rowOf))}::jsonb) as made (
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
      returning deliveries.id, deliveries.attempts as number, deliveries.round <> made.round as overtaken
    ), logged as (
    insert into webhook_attempts (
      delivery_id, number, at, duration_ms, url, request_headers, status, response_headers, response_body, error
    )
    select recorded.id, recorded.number, at, duration_ms, url, request_headers, status, response_headers,
      response_body, error
    from recorded join made on made.delivery_id = recorded.id
    )
    select id from recorded where overtaken
  `.execute(transaction)
  return new Set(rows.map(({ id }) => id))
}

function rowOf({ result, next, ...made }: Made): Record<string, unknown> {
  return {
    delivery_id: made.deliveryId,
    round: made.round,
    at: made.at.toISOString(),
    duration_ms: Math.round(made.durationMs),
    url: made.url,
    request_headers: made.requestHeaders,
    status: result.answer?.status ?? null,
    response_headers: result.answer?.headers ?? null,
    response_body: result.answer?.body ?? null,
    error: result.error === null ? null : storableText(Buffer.from(result.error), longestError),
    failed: !result.ok,
    next_status: next.status,
    next_attempt_at: next.status === 'pending' ? next.at.toISOString() : null,
  }
}
