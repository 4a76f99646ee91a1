import { notify } from '../../platform/database/notifications.ts'
import type { Transaction } from '../../platform/database.ts'
import { changedChannel } from '../outbox.ts'
import type { WebhooksTables } from '../tables.ts'
import { type Health, hasFailedForGood, healthAfter } from './health.ts'
import { type AttemptRecord, isGone } from './record-attempts.ts'

export interface DisabledWebhook {
  readonly id: string
  readonly reason: 'gone' | 'failures'
}

/**
 * Updates the health of the endpoints of these attempts. Returns the webhooks that it disabled, and the current URLs of all
 * endpoints at which an attempt failed.
 */
export async function updateHealth(
  transaction: Transaction,
  attempts: readonly AttemptRecord[],
): Promise<{ disabled: DisabledWebhook[]; urls: ReadonlyMap<string, string> }> {
  const trx = transaction.withTables<WebhooksTables>()
  const byWebhook = Map.groupBy(attempts, (attempt) => attempt.webhookId)
  const failed = new Set(attempts.filter(({ result }) => !result.ok).map(({ webhookId }) => webhookId))
  // The row of a healthy endpoint does not change with a success.
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
