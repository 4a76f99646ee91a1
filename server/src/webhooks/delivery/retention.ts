import { sql } from 'kysely'
import type { Database } from '../../platform/database.ts'

const batchSize = 1_000

/**
 * Removes deliveries that were created before `before`, with their attempts, and then events without deliveries. Pending
 * deliveries of enabled webhooks stay. Rows are deleted in batches, so that none is locked for long.
 */
export async function removeOld(database: Database, before: Date, signal: AbortSignal): Promise<void> {
  const oldDeliveries = sql`
    delete from deliveries where id in (
      select deliveries.id from deliveries join webhooks on webhooks.id = webhook_id
      where deliveries.created_at < ${before} and (deliveries.status <> 'pending' or webhooks.status = 'disabled')
      limit ${batchSize}
    )`
  const oldEvents = sql`
    delete from events where id in (
      select id from events where created_at < ${before}
        and not exists (select from deliveries where event_id = events.id)
      limit ${batchSize}
    )`
  for (const statement of [oldDeliveries, oldEvents]) {
    let removed = batchSize
    while (removed === batchSize && !signal.aborted) {
      removed = Number((await statement.execute(database)).numAffectedRows ?? 0)
    }
  }
}

/**
 * Removes the oldest deliveries of accounts that have more than they may, pending ones too, and then their events without
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
    for (let left = Number(count) - most; left > 0 && !signal.aborted; left -= batchSize) {
      await sql`delete from deliveries where id in (
        select deliveries.id from deliveries join webhooks on webhooks.id = webhook_id
        where account_id = ${account_id} order by deliveries.id limit ${Math.min(left, batchSize)}
      )`.execute(database)
    }
    if (Number(count) <= most) continue
    await sql`delete from events where account_id = ${account_id} and created_at < now() - interval '1 minute'
      and not exists (select from deliveries where event_id = events.id)`.execute(database)
  }
}
