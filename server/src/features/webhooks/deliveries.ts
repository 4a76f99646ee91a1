import { sql } from 'kysely'
import { invalidRequest, notFound } from '../../contract/errors.ts'
import type { BodyOutput, QueryOutput, ResponseBody } from '../../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../../http/page.ts'
import type { Principal } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import { notify } from '../../platform/database/notifications.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { announcePing, dueChannel } from './outbox.ts'
import type { WebhooksTables } from './tables.ts'
import { findWebhook, keepWebhook } from './webhooks.ts'

/** The deliveries of an account's webhooks. Deliveries that the principal may not see are `not_found`. */
export interface Deliveries {
  list(
    principal: Principal,
    webhookId: string,
    query: QueryOutput<'deliveries.list'>,
    page: PageRequest,
  ): Promise<Page<ResponseBody<'deliveries.list'>>>
  get(principal: Principal, webhookId: string, id: string): Promise<ResponseBody<'deliveries.get'>>
  /**
   * Throws `invalid_request` when the webhook is disabled, or the account exceeds the hourly limit that `redeliver`,
   * `recover` and `test` share.
   */
  redeliver(
    transaction: Transaction,
    principal: Principal,
    webhookId: string,
    id: string,
  ): Promise<ResponseBody<'deliveries.redeliver'>>
  recover(
    transaction: Transaction,
    principal: Principal,
    webhookId: string,
    input: BodyOutput<'webhooks.recover'>,
  ): Promise<ResponseBody<'webhooks.recover'>>
  test(transaction: Transaction, principal: Principal, webhookId: string): Promise<ResponseBody<'webhooks.test'>>
}

const maxAttemptsShown = 50

export function createDeliveries(dependencies: {
  readonly database: Database
  readonly totals: Pick<Totals, 'takeOne'>
}): Deliveries {
  const { database, totals } = dependencies
  const takeOne = (transaction: Transaction, { accountId }: Principal) =>
    totals.takeOne(transaction, accountId, 'webhook_tests_per_hour')
  return {
    async list(principal, webhookId, query, page) {
      await findWebhook(database, principal, webhookId)
      const matching = rowsOf(database, webhookId)
        .$if(query.status !== undefined, (rows) => rows.where('deliveries.status', '=', query.status ?? 'pending'))
        .$if(query.event !== undefined, (rows) => rows.where('events.type', '=', query.event ?? ''))
      const { rows, next } = await readPage(matching, page, 'deliveries.id')
      return { body: { deliveries: rows.map(shown) }, next }
    },

    async get(principal, webhookId, id) {
      await findWebhook(database, principal, webhookId)
      const row = await rowsOf(database, webhookId)
        .select('events.body as payload')
        .where('deliveries.id', '=', id)
        .executeTakeFirst()
      if (row === undefined) throw notFound()
      return { ...shown(row), payload: row.payload, latest_attempts: await attemptsOf(database, id) }
    },

    async redeliver(transaction, principal, webhookId, id) {
      await requireEnabled(transaction, principal, webhookId)
      await takeOne(transaction, principal)
      const { numUpdatedRows } = await restartSchedule(transaction, webhookId)
        .where('id', '=', id)
        .executeTakeFirstOrThrow()
      if (numUpdatedRows === 0n) throw notFound()
      await notify(transaction, dueChannel, webhookId)
      return readOne(transaction, webhookId, id)
    },

    async recover(transaction, principal, webhookId, input) {
      const webhook = await requireEnabled(transaction, principal, webhookId)
      await takeOne(transaction, principal)
      const { numUpdatedRows } = await restartSchedule(transaction, webhookId)
        .where('status', '=', 'failed')
        .where('finished_at', '>=', new Date(input.since))
        .executeTakeFirstOrThrow()
      await notify(transaction, dueChannel, webhookId)
      return { ...webhook, created_at: webhook.created_at.toISOString(), recovered: Number(numUpdatedRows) }
    },

    async test(transaction, principal, webhookId) {
      const webhook = await requireEnabled(transaction, principal, webhookId)
      await takeOne(transaction, principal)
      const { accountId } = principal
      const id = await announcePing(transaction, { id: webhookId, accountId, projectId: webhook.project_id })
      return readOne(transaction, webhookId, id)
    },
  }
}

async function requireEnabled(transaction: Transaction, principal: Principal, webhookId: string) {
  const webhook = await keepWebhook(transaction, principal, webhookId)
  if (webhook.status === 'enabled') return webhook
  throw invalidRequest({ field: 'status', message: 'the webhook is disabled; set its status to enabled first' })
}

/** Begins a new round of the schedule now. Its new number keeps a running attempt from counting in it. */
function restartSchedule(transaction: Transaction, webhookId: string) {
  return transaction
    .withTables<WebhooksTables>()
    .updateTable('deliveries')
    .set({ status: 'pending', next_attempt_at: new Date(), finished_at: null, failures: 0, round: sql`round + 1` })
    .where('webhook_id', '=', webhookId)
}

function rowsOf(database: Database | Transaction, webhookId: string) {
  return database
    .withTables<WebhooksTables>()
    .selectFrom('deliveries')
    .innerJoin('events', 'events.id', 'deliveries.event_id')
    .select(['deliveries.id', 'deliveries.webhook_id', 'deliveries.event_id', 'events.type as event'])
    .select(['deliveries.status', 'deliveries.attempts', 'deliveries.next_attempt_at'])
    .select(['deliveries.last_status', 'deliveries.last_error', 'deliveries.created_at', 'deliveries.finished_at'])
    .where('deliveries.webhook_id', '=', webhookId)
}

async function readOne(
  database: Transaction,
  webhookId: string,
  id: string,
): Promise<ResponseBody<'deliveries.redeliver'>> {
  return shown(await rowsOf(database, webhookId).where('deliveries.id', '=', id).executeTakeFirstOrThrow())
}

type Row = Awaited<ReturnType<ReturnType<typeof rowsOf>['executeTakeFirstOrThrow']>>

const shown = (row: Row): ResponseBody<'deliveries.redeliver'> => ({
  id: row.id,
  webhook_id: row.webhook_id,
  event_id: row.event_id,
  event: row.event,
  status: row.status,
  attempts: row.attempts,
  next_attempt_at: row.next_attempt_at?.toISOString() ?? null,
  last_status: row.last_status,
  last_error: row.last_error,
  created_at: row.created_at.toISOString(),
  finished_at: row.finished_at?.toISOString() ?? null,
})

async function attemptsOf(database: Database, id: string): Promise<ResponseBody<'deliveries.get'>['latest_attempts']> {
  const rows = await database
    .withTables<WebhooksTables>()
    .selectFrom('webhook_attempts')
    .selectAll()
    .where('delivery_id', '=', id)
    .orderBy('number', 'desc')
    .limit(maxAttemptsShown)
    .execute()
  return rows.map((row) => ({
    number: row.number,
    at: row.at.toISOString(),
    duration_ms: row.duration_ms,
    request: { url: row.url, headers: row.request_headers },
    response:
      row.status === null
        ? null
        : { status: row.status, headers: row.response_headers ?? {}, body: row.response_body ?? '' },
    error: row.error,
  }))
}
