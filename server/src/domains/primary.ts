import type { Transaction } from '../platform/database.ts'
import { servedStatuses } from './rows.ts'
import { type DomainRow, tablesOf } from './tables.ts'

type Candidate = Pick<DomainRow, 'id' | 'is_primary' | 'redirect'>

/**
 * Returns the domain that is to be primary. Domains that do not redirect go before those that do; among these, the domain that is
 * primary now, and otherwise the one that is served longest.
 *
 * @param served without wildcards, those served longest first
 */
export function chosen<Domain extends Candidate>(served: readonly Domain[]): Domain | undefined {
  const answering = served.filter(({ redirect }) => !redirect)
  const candidates = answering.length === 0 ? served : answering
  return candidates.find((domain) => domain.is_primary) ?? candidates[0]
}

/** Sees to it that an app whose domains have changed has one primary domain, if any can be. The app must be locked. */
export async function electPrimary(transaction: Transaction, appId: string): Promise<void> {
  const served = await tablesOf(transaction)
    .selectFrom('domains')
    .select(['id', 'is_primary', 'redirect'])
    .where('app_id', '=', appId)
    .where('status', 'in', [...servedStatuses])
    .where('name', 'not like', '*%')
    .orderBy('served_since')
    .orderBy('id')
    .execute()
  const next = chosen(served)
  if (next !== undefined && !next.is_primary) await setPrimary(transaction, appId, next.id)
}

/** Makes a domain the primary one of its app in place of another. The app must be locked. */
export async function setPrimary(transaction: Transaction, appId: string, id: string): Promise<void> {
  const domains = tablesOf(transaction).updateTable('domains')
  await domains.set({ is_primary: false }).where('app_id', '=', appId).where('is_primary', '=', true).execute()
  await domains.set({ is_primary: true }).where('id', '=', id).execute()
}
