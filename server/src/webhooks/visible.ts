import type { Selectable } from 'kysely'
import { notFound } from '../contract/errors.ts'
import type { Principal } from '../http/principal.ts'
import type { Database, Transaction } from '../platform/database.ts'
import type { WebhooksTables } from './tables.ts'

/** The columns that the API shows of a webhook. */
export const fields = ['id', 'url', 'events', 'project_id', 'rate', 'status', 'disabled_reason', 'created_at'] as const

/** Selects the webhooks of the account that the principal may see: a key bound to projects sees only theirs. */
export function visible(database: Database | Transaction, principal: Principal) {
  const rows = database
    .withTables<WebhooksTables>()
    .selectFrom('webhooks')
    .select(fields)
    .where('account_id', '=', principal.accountId)
  return principal.projectIds === null ? rows : rows.where('project_id', 'in', [...principal.projectIds])
}

/** Returns a webhook that the principal may see. Throws `not_found`. */
export async function findWebhook(
  database: Database | Transaction,
  principal: Principal,
  id: string,
): Promise<Pick<Selectable<WebhooksTables['webhooks']>, (typeof fields)[number]>> {
  const row = await visible(database, principal).where('id', '=', id).executeTakeFirst()
  if (row === undefined) throw notFound()
  return row
}
