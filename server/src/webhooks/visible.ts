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

/** Returns a webhook that the principal may see. It may be deleted at any time, unless `keepWebhook` reads it. Throws `not_found`. */
export async function findWebhook(
  database: Database | Transaction,
  principal: Principal,
  id: string,
): Promise<Pick<Selectable<WebhooksTables['webhooks']>, (typeof fields)[number]>> {
  const row = await visible(database, principal).where('id', '=', id).executeTakeFirst()
  if (row === undefined) throw notFound()
  return row
}

/** The same, and keeps the webhook from being deleted until the transaction ends. */
export async function keepWebhook(
  transaction: Transaction,
  principal: Principal,
  id: string,
): ReturnType<typeof findWebhook> {
  const row = await visible(transaction, principal).where('id', '=', id).forKeyShare().executeTakeFirst()
  if (row === undefined) throw notFound()
  return row
}
