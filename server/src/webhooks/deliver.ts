import { parseSecret, sign } from '@fairlead/receiver'
import { sql } from 'kysely'
import type { Database } from '../platform/database.ts'
import { enqueue } from '../platform/jobs.ts'
import type { Logger } from '../platform/logger.ts'
import type { SecretBox } from '../platform/secrets.ts'
import { deliverTask } from './outbox.ts'
import { waitAfter } from './schedule.ts'
import type { Message, Sender, SendResult } from './send.ts'
import type { WebhooksTables } from './tables.ts'

export interface DeliverDependencies {
  readonly database: Database
  readonly secrets: SecretBox
  readonly sender: Sender
  readonly logger: Logger
}

/**
 * Makes the attempt of a delivery that is due. What came of it and when the next one is due are written together,
 * so that a crash may repeat an attempt but never loses one.
 */
export async function deliver(
  dependencies: DeliverDependencies,
  deliveryId: string,
  signal: AbortSignal,
): Promise<void> {
  const delivery = await findDue(dependencies.database, deliveryId)
  if (delivery === undefined) return
  const secret = dependencies.secrets.decrypt(delivery.secret, delivery.webhook_id)
  const result = await dependencies.sender.send(messageOf(delivery, secret), signal)
  // The server's own stop is no failure of the receiver: the job is done again at the next start.
  if (!result.ok && signal.aborted) throw signal.reason
  await record(dependencies, delivery, result)
}

type Due = NonNullable<Awaited<ReturnType<typeof findDue>>>

function findDue(database: Database, deliveryId: string) {
  return database
    .withTables<WebhooksTables>()
    .selectFrom('deliveries')
    .innerJoin('webhooks', 'webhooks.id', 'deliveries.webhook_id')
    .innerJoin('events', 'events.id', 'deliveries.event_id')
    .select(['deliveries.id', 'deliveries.attempts', 'deliveries.webhook_id', 'deliveries.event_id'])
    .select(['webhooks.url', 'webhooks.secret', 'events.body'])
    .where('deliveries.id', '=', deliveryId)
    .where('deliveries.status', '=', 'pending')
    .where('webhooks.status', '=', 'enabled')
    .executeTakeFirst()
}

/** Standard Webhooks: the id is the event's, the same over all attempts; the timestamp is new on each. */
function messageOf(delivery: Due, secret: string): Message {
  const body = Buffer.from(delivery.body)
  const timestamp = Math.floor(Date.now() / 1000)
  return {
    url: delivery.url,
    body,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Fairlead-Webhooks',
      'webhook-id': delivery.event_id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': sign({ key: parseSecret(secret), id: delivery.event_id, timestamp, body }),
    },
  }
}

async function record(dependencies: DeliverDependencies, delivery: Due, result: SendResult): Promise<void> {
  const made = delivery.attempts + 1
  const wait = result.ok ? undefined : waitAfter(made, Math.random())
  const runAt = wait === undefined ? null : new Date(Date.now() + wait)
  await dependencies.database.transaction().execute(async (transaction) => {
    const { numUpdatedRows } = await transaction
      .withTables<WebhooksTables>()
      .updateTable('deliveries')
      .set({
        attempts: made,
        last_status: result.status,
        last_error: result.error,
        next_attempt_at: runAt,
        ...(result.ok ? { status: 'succeeded' as const, finished_at: sql<Date>`now()` } : {}),
        ...(!result.ok && runAt === null ? { status: 'failed' as const, finished_at: sql<Date>`now()` } : {}),
      })
      .where('id', '=', delivery.id)
      .where('attempts', '=', delivery.attempts)
      .executeTakeFirst()
    if (numUpdatedRows === 1n && runAt !== null) {
      await enqueue(transaction, { task: deliverTask, payload: { delivery_id: delivery.id }, runAt })
    }
  })
  dependencies.logger.info(
    { delivery: delivery.id, event: delivery.event_id, webhook: delivery.webhook_id, attempt: made, ...result },
    result.ok ? 'webhook delivered' : 'webhook attempt failed',
  )
}
