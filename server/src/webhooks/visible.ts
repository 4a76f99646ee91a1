import type { Selectable } from 'kysely'
import { notFound } from '../contract/errors.ts'
import type { Principal } from '../http/principal.ts'
import type { Database, Transaction } from '../platform/database.ts'
import type { WebhooksTables } from './tables.ts'

/** What the API tells of a receiver. */
export const fields = ['id', 'url', 'events', 'project_id', 'rate', 'status', 'disabled_reason', 'created_at'] as const

/** The account's receivers; a key that is bound to projects sees theirs alone. */
export function visible(database: Database | Transaction, principal: Principal) {
  const rows = database
    .withTables<WebhooksTables>()
    .selectFrom('webhooks')
    .select(fields)
    .where('account_id', '=', principal.accountId)
  return principal.projectIds === null ? rows : rows.where('project_id', 'in', [...principal.projectIds])
}

/** One of them; throws `not_found`. */
export async function findWebhook(
  database: Database | Transaction,
  principal: Principal,
  id: string,
): Promise<Pick<Selectable<WebhooksTables['webhooks']>, (typeof fields)[number]>> {
  const row = await visible(database, principal).where('id', '=', id).executeTakeFirst()
  if (row === undefined) throw notFound()
  return row
}
