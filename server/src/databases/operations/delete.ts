import type { TenantProject } from '../../http/principal.ts'
import type { Transaction } from '../../platform/database.ts'
import { accountLimits, planNamed } from '../../platform/plans.ts'
import { enqueueDrop, enqueueReconcile } from '../job-queue.ts'
import type { DatabasesTables } from '../tables.ts'
import { lockAccount, type QuotaDependencies } from './quota.ts'
import { lockDatabase } from './rows.ts'

export interface DeletionDependencies extends QuotaDependencies {
  readonly retentionMs: number
}

/** Marks a database as deleted; jobs close it and remove it after the retention. */
export async function deleteDatabase(
  dependencies: DeletionDependencies,
  transaction: Transaction,
  project: TenantProject,
  id: string,
): Promise<void> {
  await lockAccount(transaction, project)
  const row = await lockDatabase(transaction, project, id)
  if (row.status === 'deleting') return
  // A database that was never available holds nothing to restore.
  const dropAt = new Date(Date.now() + (row.available_at === null ? 0 : dependencies.retentionMs))
  await transaction
    .withTables<DatabasesTables>()
    .updateTable('databases')
    // An unfinished restoration is aborted, so its snapshot need not be kept.
    .set({
      status: 'deleting',
      drop_at: dropAt,
      failure: null,
      source_snapshot_id: null,
      restore_id: null,
      next_password: null,
    })
    .where('id', '=', id)
    .execute()
  await enqueueReconcile(transaction, id)
  await enqueueDrop(transaction, id, dropAt)
  await dropSurplus(dependencies, transaction, project)
}

/**
 * Limits the space of deleted databases: a project keeps as many as its plan allows, and an account as many as its own
 * limit allows. The oldest ones beyond these limits are removed at once.
 */
async function dropSurplus(
  { plans, tierOf, projectsOf }: QuotaDependencies,
  transaction: Transaction,
  project: TenantProject,
): Promise<void> {
  const trx = transaction.withTables<DatabasesTables>()
  const deletedBut = (projects: readonly string[], kept: number) =>
    trx
      .selectFrom('databases')
      .select('id')
      .where('project_id', 'in', [...projects])
      .where('status', '=', 'deleting')
      .orderBy('drop_at', 'desc')
      .offset(kept)
      .execute()
  const { databases } = accountLimits(plans, await tierOf(transaction, project.accountId))
  const surplus = [
    ...(await deletedBut([project.id], planNamed(plans, project.plan).databases)),
    ...(await deletedBut(await projectsOf(transaction, project.accountId), databases)),
  ]
  for (const id of new Set(surplus.map((row) => row.id))) {
    await trx
      .updateTable('databases')
      .set({ drop_at: new Date() })
      .where('id', '=', id)
      .where('status', '=', 'deleting')
      .execute()
    await enqueueDrop(transaction, id, new Date())
  }
}
