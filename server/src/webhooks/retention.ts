import { sql } from 'kysely'
import type { Database } from '../platform/database.ts'

const batch = 1_000

/**
 * Removes deliveries that were made before `before`, with their attempts, and then events that nothing refers to.
 * What is still to be sent to an enabled receiver stays. A batch at a time, so that nothing is locked for long.
 */
export async function removeOld(database: Database, before: Date, signal: AbortSignal): Promise<void> {
  const oldDeliveries = sql`
    delete from deliveries where id in (
      select deliveries.id from deliveries join webhooks on webhooks.id = webhook_id
      where deliveries.created_at < ${before} and (deliveries.status <> 'pending' or webhooks.status = 'disabled')
      limit ${batch}
    )`
  const oldEvents = sql`
    delete from events where id in (
      select id from events where created_at < ${before}
        and not exists (select from deliveries where event_id = events.id)
      limit ${batch}
    )`
  for (const statement of [oldDeliveries, oldEvents]) {
    let removed = batch
    while (removed === batch && !signal.aborted) {
      removed = Number((await statement.execute(database)).numAffectedRows ?? 0)
    }
  }
}
