import type { EventData, EventName } from '@fairlead/receiver'
import { sql } from 'kysely'
import type { Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { enqueue } from '../platform/jobs.ts'
import type { WebhooksTables } from './tables.ts'

/** The job that makes one attempt of one delivery. */
export const deliverTask = 'webhooks.deliver'

export interface OutgoingEvent<Name extends EventName = EventName> {
  readonly accountId: string
  readonly projectId: string
  readonly event: Name
  readonly data: EventData<Name>
}

/**
 * Writes an event, its delivery to every receiver that wants it and their jobs in the caller's transaction:
 * what did not happen is not announced, and what happened is not forgotten.
 */
export async function announce<Name extends EventName>(
  transaction: Transaction,
  outgoing: OutgoingEvent<Name>,
): Promise<void> {
  const trx = transaction.withTables<WebhooksTables>()
  const eventId = newId('event')
  const { event, data } = outgoing
  await trx
    .insertInto('events')
    .values({
      id: eventId,
      account_id: outgoing.accountId,
      project_id: outgoing.projectId,
      type: event,
      body: JSON.stringify({ event, timestamp: new Date().toISOString(), data }),
    })
    .execute()
  const receivers = await trx
    .selectFrom('webhooks')
    .select('id')
    .where('account_id', '=', outgoing.accountId)
    .where('status', '=', 'enabled')
    .where(sql<boolean>`events && ${sql.val(['*', event])}::text[]`)
    .where((where) => where.or([where('project_id', 'is', null), where('project_id', '=', outgoing.projectId)]))
    .execute()
  for (const receiver of receivers) {
    const id = newId('delivery')
    await trx
      .insertInto('deliveries')
      .values({ id, webhook_id: receiver.id, event_id: eventId, status: 'pending', next_attempt_at: new Date() })
      .execute()
    await enqueue(transaction, { task: deliverTask, payload: { delivery_id: id } })
  }
}
