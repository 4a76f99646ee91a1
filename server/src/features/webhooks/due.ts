import { parseSecret, type SigningKey } from '@fairlead/receiver'
import { sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { SecretBox } from '../../platform/secrets.ts'

/** The most deliveries of a failing endpoint in memory, so that many dead endpoints do not fill the memory. */
export const maxHeldFailing = 2

export interface DueDelivery {
  readonly id: string
  readonly webhookId: string
  readonly eventId: string
  readonly round: number
  readonly failures: number
  readonly url: string
  readonly body: string
  readonly keys: readonly SigningKey[]
}

export interface DueDeliveries {
  readonly webhookId: string
  readonly rate: number | null
  readonly failing: boolean
  readonly deliveries: readonly DueDelivery[]
  /** True when there may be more than the limit allowed. */
  readonly more: boolean
}

/** The number of deliveries to read for an endpoint, and the ids in memory, which are left out. */
export interface DueRequest {
  readonly webhookId: string
  readonly limit: number
  readonly held: readonly string[]
}

export interface DueQueries {
  /** Returns the enabled endpoints with pending deliveries, and the time when the first delivery is due. */
  findWaiting(): Promise<{ webhookId: string; at: Date }[]>
  /** Returns the due deliveries of each endpoint that has any, longest due first. */
  findDue(requests: readonly DueRequest[]): Promise<DueDeliveries[]>
}

export interface DueDependencies {
  readonly database: Database
  readonly secrets: SecretBox
  readonly logger: Logger
}

export function createDueQueries({ database, secrets, logger }: DueDependencies): DueQueries {
  return {
    findWaiting: () => selectWaiting(database),

    async findDue(requests) {
      const rows = await selectDue(database, requests)
      return [...Map.groupBy(rows, (row) => row.webhook_id).values()].flatMap((group) => {
        const [first] = group as [DueRow, ...DueRow[]]
        try {
          return [dueDeliveries(first, group, signingKeys(secrets, first))]
        } catch (error) {
          // A secret that cannot be decrypted must not block all other endpoints.
          logger.error({ err: error, webhook: first.webhook_id }, 'the secret of a webhook cannot be read')
          return []
        }
      })
    },
  }
}

export async function bringDeliveriesForward(transaction: Transaction, ms: number): Promise<void> {
  await sql`update deliveries set next_attempt_at = next_attempt_at - make_interval(secs => ${ms / 1000}::float8)
    where status = 'pending' and next_attempt_at > now()`.execute(transaction)
}

interface DueRow {
  id: string
  webhook_id: string
  event_id: string
  round: number
  failures: number
  body: string
  url: string
  limit: number
  rate: number | null
  secret: Buffer
  previous_secret: Buffer | null
  failing: boolean
}

async function selectWaiting(database: Database): Promise<{ webhookId: string; at: Date }[]> {
  const { rows } = await sql<{ webhook_id: string; at: Date }>`
    select webhooks.id as webhook_id, first.next_attempt_at as at
    from webhooks cross join lateral (
      select next_attempt_at from deliveries
      where webhook_id = webhooks.id and status = 'pending' order by next_attempt_at limit 1
    ) first
    where webhooks.status = 'enabled'
  `.execute(database)
  return rows.map(({ webhook_id, at }) => ({ webhookId: webhook_id, at }))
}

/** One query for all endpoints, each with its limit, so that a large backlog hides no other endpoint. */
async function selectDue(database: Database, requests: readonly DueRequest[]): Promise<DueRow[]> {
  const now = new Date()
  const requested = JSON.stringify(requests.map(({ webhookId, limit, held }) => ({ id: webhookId, limit, held })))
  const { rows } = await sql<DueRow>`
    select due.id, due.webhook_id, due.event_id, due.round, due.failures, events.body, allowed.most as "limit",
      webhooks.url, webhooks.rate, webhooks.secret, webhooks.failing_since is not null as failing,
      case when webhooks.previous_secret_until > ${now} then webhooks.previous_secret end as previous_secret
    from jsonb_to_recordset(${requested}::jsonb) as requested (id text, "limit" integer, held jsonb)
    join webhooks on webhooks.id = requested.id and webhooks.status = 'enabled'
    cross join lateral (
      select least(requested."limit", case when webhooks.failing_since is not null then ${maxHeldFailing}::integer end)
        as most
    ) allowed
    cross join lateral (
      select * from deliveries
      where webhook_id = webhooks.id and status = 'pending' and next_attempt_at <= ${now}
        and not requested.held ? id
      order by next_attempt_at limit allowed.most
    ) due
    join events on events.id = due.event_id
    order by due.webhook_id, due.next_attempt_at, due.id
  `.execute(database)
  return rows
}

function dueDeliveries(first: DueRow, rows: readonly DueRow[], keys: readonly SigningKey[]): DueDeliveries {
  return {
    webhookId: first.webhook_id,
    rate: first.rate,
    failing: first.failing,
    more: rows.length >= first.limit,
    deliveries: rows.map((row) => ({
      id: row.id,
      webhookId: row.webhook_id,
      eventId: row.event_id,
      round: row.round,
      failures: row.failures,
      url: row.url,
      body: row.body,
      keys,
    })),
  }
}

function signingKeys(secrets: SecretBox, row: DueRow): SigningKey[] {
  const sealed = row.previous_secret === null ? [row.secret] : [row.secret, row.previous_secret]
  return sealed.map((secret) => parseSecret(secrets.decrypt(secret, row.webhook_id)))
}
