import { invalidRequest } from '../../contract/errors.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Transaction } from '../../platform/database.ts'
import type { Engine } from '../engines/engine.ts'
import { enqueueReconcile } from '../job-queue.ts'
import type { DatabasesTables } from '../tables.ts'
import { type Detail, detailOf } from './presentation.ts'
import { checkQuota, lockAccount, type QuotaDependencies } from './quota.ts'
import { lockDatabase } from './rows.ts'

/** Reverts the deletion of a database that is not removed yet. */
export async function restoreDatabase(
  dependencies: QuotaDependencies & { readonly engine: Pick<Engine, 'name' | 'open'> },
  transaction: Transaction,
  project: TenantProject,
  id: string,
): Promise<Detail> {
  await lockAccount(transaction, project)
  const row = await lockDatabase(transaction, project, id)
  if (row.status !== 'deleting' || row.drop_at === null || row.drop_at <= new Date()) {
    throw invalidRequest({ field: 'id', message: 'this database is not deleted, or is gone for good' })
  }
  await checkQuota(dependencies, transaction, project, row.plan)
  const restored = await transaction
    .withTables<DatabasesTables>()
    .updateTable('databases')
    .set({ status: 'provisioning', drop_at: null, provisioning_since: new Date() })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  await enqueueReconcile(transaction, id)
  return detailOf(dependencies, restored)
}
