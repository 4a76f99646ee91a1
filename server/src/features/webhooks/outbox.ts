import type { EventName } from '@fairlead/receiver'
import { sql } from 'kysely'
import type { Announce, OutgoingEvent } from '../../platform/announce.ts'
import type { Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { WebhooksTables } from './tables.ts'

/** Tells the dispatcher that something is due for the webhook with the id in the payload. */
export const dueChannel = 'fairlead_webhook_due'

/** Tells the dispatcher that the webhook with the id in the payload was changed or deleted. */
export const changedChannel = 'fairlead_webhook_changed'

export const announce: Announce = async (transaction, outgoing) => {
  const eventId = await writeEvent(transaction, outgoing)
  const webhooks = await transaction
    .withTables<WebhooksTables>()
    .selectFrom('webhooks')
    .select('id')
    .where('account_id', '=', outgoing.accountId)
    .where('status', '=', 'enabled')
    .where(sql<boolean>`events && ${sql.val(patternsFor(outgoing.event))}::text[]`)
    .where((where) => where.or([where('project_id', 'is', null), where('project_id', '=', outgoing.projectId)]))
    // Without the lock, the foreign key would fail this transaction if the webhook is deleted at the same time.
    .forKeyShare()
    .execute()
  await writeDeliveries(
    transaction,
    eventId,
    webhooks.map(({ id }) => id),
  )
}

/** Writes a `ping` to one webhook, even if it subscribes only to other events. Returns the delivery's id. */
export async function announcePing(
  transaction: Transaction,
  webhook: { readonly id: string; readonly accountId: string; readonly projectId: string | null },
): Promise<string> {
  const eventId = await writeEvent(transaction, { ...webhook, event: 'ping', data: { webhook_id: webhook.id } })
  const [delivery] = await writeDeliveries(transaction, eventId, [webhook.id])
  return delivery as string
}

async function writeEvent(transaction: Transaction, outgoing: OutgoingEvent): Promise<string> {
  const id = newId('event')
  const { event, data } = outgoing
  await transaction
    .withTables<WebhooksTables>()
    .insertInto('events')
    .values({
      id,
      account_id: outgoing.accountId,
      project_id: outgoing.projectId,
      type: event,
      body: JSON.stringify({ event, timestamp: new Date().toISOString(), data }),
    })
    .execute()
  return id
}

async function writeDeliveries(
  transaction: Transaction,
  eventId: string,
  webhookIds: readonly string[],
): Promise<string[]> {
  if (webhookIds.length === 0) return []
  const now = new Date()
  const rows = webhookIds.map((webhookId) => ({
    id: newId('delivery'),
    webhook_id: webhookId,
    event_id: eventId,
    status: 'pending' as const,
    next_attempt_at: now,
  }))
  await transaction.withTables<WebhooksTables>().insertInto('deliveries').values(rows).execute()
  await sql`select pg_notify(${dueChannel}, id) from unnest(${sql.val(webhookIds)}::text[]) as id`.execute(transaction)
  return rows.map(({ id }) => id)
}

/** Returns every pattern that matches an event: its name, its group such as `deployment.*`, and `*`. */
function patternsFor(event: EventName): string[] {
  const group = event.includes('.') ? [`${event.split('.')[0]}.*`] : []
  return ['*', ...group, event]
}
