import { sql } from 'kysely'
import { ApiError } from '../../contract/errors.ts'
import type { TenantProject } from '../../http/principal.ts'
import { type BatchedRead, createBatchedRead } from '../../platform/database/batcher.ts'
import { type Database, lockByName, type Transaction } from '../../platform/database.ts'
import { accountLimits, type Plans, planNamed, type Tier } from '../../platform/plans.ts'
import { databaseLimits } from './limits.ts'
import type { DatabasesTables } from './rows.ts'

/** Deleted databases do not count, although they can still be restored. */
const counted = (db: Database | Transaction) =>
  db
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .select(({ fn }) => fn.countAll<string>().as('total'))
    .where('status', '!=', 'deleting')

export function createDatabaseCount(database: Database): BatchedRead<string, number> {
  return createBatchedRead(database, async (on, projectIds) => {
    const rows = await counted(on)
      .select('project_id')
      .where('project_id', '=', sql<string>`any(${[...projectIds]}::text[])`)
      .groupBy('project_id')
      .execute()
    const totals = new Map(rows.map(({ project_id, total }) => [project_id, Number(total)]))
    return projectIds.map((id) => totals.get(id) ?? 0)
  })
}

export interface QuotaDependencies {
  readonly plans: Plans
  readonly tierOf: (transaction: Transaction, accountId: string) => Promise<Tier>
  readonly projectsOf: (transaction: Transaction, accountId: string) => Promise<readonly string[]>
}

/**
 * Makes transactions of an account run one after the other: two transactions must not both create the last allowed
 * database. Taken before the lock of a database, because a deletion locks several databases.
 */
export async function lockAccount(transaction: Transaction, { accountId }: TenantProject): Promise<void> {
  await lockByName(transaction, `databases of ${accountId}`)
}

/**
 * Throws `invalid_request` when one more database of this plan would exceed the limit of its project, or the account's
 * limits on databases or connections.
 */
export async function checkQuota(
  dependencies: QuotaDependencies,
  transaction: Transaction,
  project: TenantProject,
  plan: string,
): Promise<void> {
  const { plans, tierOf, projectsOf } = dependencies
  await lockAccount(transaction, project)
  const rows = await counted(transaction)
    .select(['project_id', 'plan'])
    .where('project_id', 'in', [...(await projectsOf(transaction, project.accountId))])
    .groupBy(['project_id', 'plan'])
    .execute()
  const sum = (of: typeof rows, each = (_plan: string) => 1) =>
    of.reduce((total, row) => total + Number(row.total) * each(row.plan), 0)
  const max = planNamed(plans, project.plan).databases
  if (sum(rows.filter(({ project_id }) => project_id === project.id)) >= max) {
    throw new ApiError(
      'invalid_request',
      `The plan ${project.plan} of this project allows ${max} databases. Delete one, or use a project with a larger plan.`,
      { max_databases: max },
    )
  }
  const totals = accountLimits(plans, await tierOf(transaction, project.accountId))
  if (sum(rows) >= totals.databases) {
    throw new ApiError(
      'invalid_request',
      `This account may have ${totals.databases} databases in all of its projects together. Delete one first.`,
      { max_account_databases: totals.databases },
    )
  }
  const connectionsOf = (name: string) => databaseLimits(planNamed(plans, name)).connections
  if (sum(rows, connectionsOf) + connectionsOf(plan) > totals.database_connections) {
    throw new ApiError(
      'invalid_request',
      `The databases of this account may have ${totals.database_connections} connections together, by their plans. Delete one, or choose a smaller plan.`,
      { max_account_connections: totals.database_connections },
    )
  }
}

/** Throws `invalid_request` when the account has as many snapshots as its tier allows. */
export async function checkSnapshotQuota(
  { plans, tierOf, projectsOf }: QuotaDependencies,
  transaction: Transaction,
  project: TenantProject,
): Promise<void> {
  await lockAccount(transaction, project)
  const { snapshots: max } = accountLimits(plans, await tierOf(transaction, project.accountId))
  const { total } = await transaction
    .withTables<DatabasesTables>()
    .selectFrom('snapshots')
    .innerJoin('databases', 'databases.id', 'snapshots.database_id')
    .select(({ fn }) => fn.countAll<string>().as('total'))
    .where('snapshots.status', '<>', 'deleting')
    .where('databases.project_id', 'in', [...(await projectsOf(transaction, project.accountId))])
    .executeTakeFirstOrThrow()
  if (Number(total) < max) return
  throw new ApiError(
    'invalid_request',
    `This account may have ${max} snapshots in all of its projects together. Delete one first.`,
    { max_account_snapshots: max },
  )
}
