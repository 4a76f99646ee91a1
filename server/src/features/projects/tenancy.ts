import { sql } from 'kysely'
import { isId } from '../../contract/ids.ts'
import type { TenantProject } from '../../http/principal.ts'
import { createBatcher } from '../../platform/database/batcher.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { ProjectsTables } from './tables.ts'

/** Looks up projects within their accounts: the only place that separates tenants. */
export interface Tenancy {
  /**
   * Returns the project if it belongs to this account; otherwise `undefined`, even if another account has it. Inside a
   * transaction, pass the transaction as `on`.
   */
  find(accountId: string, projectId: string, on?: Transaction): Promise<TenantProject | undefined>
  /** Keeps an active project from being deleted until the transaction ends. Returns false when it is not active. */
  hold(transaction: Transaction, projectId: string): Promise<boolean>
  /**
   * Returns the account of a project, for jobs, never for a request. Uses the caller's connection: a job that took a
   * second connection from the pool would wait for ever if such jobs held all connections.
   */
  accountOf(transaction: Transaction, projectId: string): Promise<string>
  /** Returns the accounts of the active projects among these, by project id. For the leader, never for a request. */
  accountsOf(projectIds: readonly string[]): Promise<ReadonlyMap<string, string>>
  /** Returns the ids of all projects of an account, including projects that are being deleted. */
  projectsOf(on: Database | Transaction, accountId: string): Promise<string[]>
  namesOf(accountId: string): Promise<{ id: string; name: string }[]>
  /** Returns the name of a project's plan. For jobs, never for a request. */
  planOf(projectId: string): Promise<string>
  /** Returns the plan names of all projects with apps, by project id. For jobs, never for a request. */
  plans(): Promise<ReadonlyMap<string, string>>
}

interface TenantKey {
  readonly accountId: string
  readonly projectId: string
}

export function createTenancy({ database }: { database: Database }): Tenancy {
  // Nearly every request needs its project, so concurrent requests share a query.
  const findBatch = createBatcher((keys: readonly TenantKey[]) => findProjects(database, keys))

  return {
    async find(accountId, projectId, on) {
      // PostgreSQL rejects some strings, so malformed ids are not queried.
      if (!isId('project', projectId)) return undefined
      if (on === undefined) return findBatch({ accountId, projectId })
      const [found] = await findProjects(on, [{ accountId, projectId }])
      return found
    },
    async hold(transaction, projectId) {
      const row = await projectsIn(transaction)
        .select('id')
        .where('id', '=', projectId)
        .where('status', '=', 'active')
        .forShare()
        .executeTakeFirst()
      return row !== undefined
    },
    async accountOf(transaction, projectId) {
      const project = projectsIn(transaction).select('account_id').where('id', '=', projectId)
      return (await project.executeTakeFirstOrThrow()).account_id
    },
    async accountsOf(projectIds) {
      const some = sql<string>`any(${[...new Set(projectIds)]}::text[])`
      const active = projectsIn(database).where('status', '=', 'active').where('id', '=', some)
      const rows = await active.select(['id', 'account_id']).execute()
      return new Map(rows.map(({ id, account_id }) => [id, account_id]))
    },
    async projectsOf(on, accountId) {
      const rows = await projectsIn(on).select('id').where('account_id', '=', accountId).execute()
      return rows.map(({ id }) => id)
    },
    namesOf(accountId) {
      const active = projectsIn(database).where('account_id', '=', accountId).where('status', '=', 'active')
      return active.select(['id', 'name']).orderBy('id', 'desc').execute()
    },
    async planOf(projectId) {
      const project = projectsIn(database).select('plan').where('id', '=', projectId)
      return (await project.executeTakeFirstOrThrow()).plan
    },
    async plans() {
      // This query runs every few seconds, and many projects may have no apps.
      const withApps = sql<boolean>`exists (select from apps where project_id = projects.id)`
      const projects = await projectsIn(database).select(['id', 'plan']).where(withApps).execute()
      return new Map(projects.map(({ id, plan }) => [id, plan]))
    },
  }
}

const projectsIn = (on: Database | Transaction) => on.withTables<ProjectsTables>().selectFrom('projects')

async function findProjects(
  on: Database | Transaction,
  keys: readonly TenantKey[],
): Promise<readonly (TenantProject | undefined)[]> {
  const rows = await projectsIn(on)
    .where('status', '=', 'active')
    .select(['id', 'account_id as accountId', 'name', 'region', 'plan', 'created_at as createdAt'])
    .where('id', '=', sql<string>`any(${keys.map(({ projectId }) => projectId)}::text[])`)
    .execute()
  const found = new Map(rows.map((row) => [row.id, row]))
  return keys.map(({ accountId, projectId }) => {
    const project = found.get(projectId)
    return project?.accountId === accountId ? project : undefined
  })
}
