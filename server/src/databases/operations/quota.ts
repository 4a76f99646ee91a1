import { sql } from 'kysely'
import { ApiError } from '../../contract/errors.ts'
import type { TenantProject } from '../../http/principal.ts'
import { createBatcher } from '../../platform/database/batcher.ts'
import { type Database, lockByName, type Transaction } from '../../platform/database.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { DatabasesTables } from '../tables.ts'

/** Deleted databases, which can still be restored, do not count. */
const counted = (db: Database | Transaction) =>
  db
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .select(({ fn }) => fn.countAll<string>().as('total'))
    .where('status', '!=', 'deleting')

/** Returns a function that counts the databases of a project; concurrent calls share a query. */
export function createDatabaseCount(database: Database): (projectId: string) => Promise<number> {
  return createBatcher(async (projectIds: readonly string[]) => {
    const rows = await counted(database)
      .select('project_id')
      .where('project_id', '=', sql<string>`any(${[...projectIds]}::text[])`)
      .groupBy('project_id')
      .execute()
    const totals = new Map(rows.map(({ project_id, total }) => [project_id, Number(total)]))
    return projectIds.map((id) => totals.get(id) ?? 0)
  })
}

/**
 * Throws `invalid_request` when the project has as many databases as its plan allows. Transactions of one project run one
 * after the other from here on, so that two cannot both create the last one.
 */
export async function checkQuota(transaction: Transaction, project: TenantProject, plans: Plans): Promise<void> {
  await lockByName(transaction, `databases ${project.id}`)
  const max = planNamed(plans, project.plan).databases
  const { total } = await counted(transaction).where('project_id', '=', project.id).executeTakeFirstOrThrow()
  if (Number(total) < max) return
  throw new ApiError(
    'invalid_request',
    `The plan ${project.plan} of this project allows ${max} databases. Delete one, or use a project with a larger plan.`,
    { max_databases: max },
  )
}
