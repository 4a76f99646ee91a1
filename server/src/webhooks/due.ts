import { parseSecret, type SigningKey } from '@fairlead/receiver'
import { sql } from 'kysely'
import type { Database } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import type { SecretBox } from '../platform/secrets/secret-box.ts'

/** Deliveries in memory of one receiver that fails: many dead ones must take little. */
export const mostHeldFailing = 2

/** A delivery whose time has come, with all that its attempt needs. */
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

/** What one receiver has to do. */
export interface Due {
  readonly webhookId: string
  readonly rate: number | null
  /** Whether its last attempt failed. */
  readonly failing: boolean
  readonly deliveries: readonly DueDelivery[]
  /** Whether there may be more than was asked for. */
  readonly more: boolean
}

/** How many deliveries of a receiver are asked for, and which of its own the asker has already. */
export interface Wanted {
  readonly webhookId: string
  readonly limit: number
  readonly held: readonly string[]
}

export interface DueQueries {
  /** Enabled receivers with something pending, and when the first of it is due. */
  findWaiting(): Promise<{ webhookId: string; at: Date }[]>
  /** What is due now for each of these receivers; only for those that have something. The longest due come first. */
  findDue(wanted: readonly Wanted[]): Promise<Due[]>
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

export interface DueDependencies {
  readonly database: Database
  readonly secrets: SecretBox
  readonly logger: Logger
}

export function createDueQueries({ database, secrets, logger }: DueDependencies): DueQueries {
  const keysOf = (row: DueRow): SigningKey[] => {
    const sealed = row.previous_secret === null ? [row.secret] : [row.secret, row.previous_secret]
    return sealed.map((secret) => parseSecret(secrets.decrypt(secret, row.webhook_id)))
  }

  const dueOf = (rows: readonly [DueRow, ...DueRow[]]): Due => {
    const [first] = rows
    const keys = keysOf(first)
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

  return {
    async findWaiting() {
      const { rows } = await sql<{ webhook_id: string; at: Date }>`
        select webhooks.id as webhook_id, first.next_attempt_at as at
        from webhooks cross join lateral (
          select next_attempt_at from deliveries
          where webhook_id = webhooks.id and status = 'pending' order by next_attempt_at limit 1
        ) first
        where webhooks.status = 'enabled'
      `.execute(database)
      return rows.map(({ webhook_id, at }) => ({ webhookId: webhook_id, at }))
    },

    async findDue(wanted) {
      const now = new Date()
      const asked = JSON.stringify(wanted.map(({ webhookId, limit, held }) => ({ id: webhookId, limit, held })))
      const { rows } = await sql<DueRow>`
        select due.id, due.webhook_id, due.event_id, due.round, due.failures, events.body, allowed.most as "limit",
          webhooks.url, webhooks.rate, webhooks.secret, webhooks.failing_since is not null as failing,
          case when webhooks.previous_secret_until > ${now} then webhooks.previous_secret end as previous_secret
        from jsonb_to_recordset(${asked}::jsonb) as wanted (id text, "limit" integer, held jsonb)
        join webhooks on webhooks.id = wanted.id and webhooks.status = 'enabled'
        cross join lateral (
          select least(wanted."limit", case when webhooks.failing_since is not null then ${mostHeldFailing}::integer end)
            as most
        ) allowed
        cross join lateral (
          select * from deliveries
          where webhook_id = webhooks.id and status = 'pending' and next_attempt_at <= ${now}
            and not wanted.held ? id
          order by next_attempt_at limit allowed.most
        ) due
        join events on events.id = due.event_id
        order by due.webhook_id, due.next_attempt_at, due.id
      `.execute(database)
      return [...Map.groupBy(rows, (row) => row.webhook_id).values()].flatMap((group) => {
        try {
          return [dueOf(group as [DueRow, ...DueRow[]])]
        } catch (error) {
          // A secret that cannot be read any more keeps nobody else waiting.
          logger.error({ err: error, webhook: group[0]?.webhook_id }, 'the secret of a webhook cannot be read')
          return []
        }
      })
    },
  }
}
