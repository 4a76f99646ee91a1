import { sql } from 'kysely'
import { isId } from '../contract/ids.ts'
import type { TenantProject } from '../http/principal.ts'
import { createBatcher } from '../platform/database/batcher.ts'
import type { Database, Transaction } from '../platform/database.ts'
import type { ProjectsTables } from './tables.ts'

/** Looks up projects within their accounts: the one place that separates tenants. */
export interface Tenancy {
  /** Returns the project if it belongs to this account. Returns `undefined` for projects of other accounts alike. */
  find(accountId: string, projectId: string): Promise<TenantProject | undefined>
  /** Keeps an active project from being deleted until the transaction ends. Returns false when it is not active. */
  hold(transaction: Transaction, projectId: string): Promise<boolean>
  /**
   * Returns the account of a project, for jobs, never for a request. Reads it on the caller's connection: a job that asked
   * the pool for a second one would wait for ever when every connection is held by a job that does the same.
   */
  accountOf(transaction: Transaction, projectId: string): Promise<string>
  /** Returns the name of a project's plan. For jobs, never for a request. */
  planOf(projectId: string): Promise<string>
}

export function createTenancy({ database }: { database: Database }): Tenancy {
  const projects = database.withTables<ProjectsTables>().selectFrom('projects').where('status', '=', 'active')

  // Nearly every request needs its project: concurrent ones share a query.
  const findBatch = createBatcher(
    async (keys: readonly { readonly accountId: string; readonly projectId: string }[]) => {
      const rows = await projects
        .select(['id', 'account_id as accountId', 'name', 'region', 'plan', 'created_at as createdAt'])
        .where('id', '=', sql<string>`any(${keys.map(({ projectId }) => projectId)}::text[])`)
        .execute()
      const found = new Map(rows.map((row) => [row.id, row]))
      return keys.map(({ accountId, projectId }): TenantProject | undefined => {
        const project = found.get(projectId)
        return project?.accountId === accountId ? project : undefined
      })
    },
  )

  return {
    async find(accountId, projectId) {
      // PostgreSQL rejects some strings, so it is not queried with malformed ids.
      if (!isId('project', projectId)) return undefined
      return findBatch({ accountId, projectId })
    },
    async hold(transaction, projectId) {
      const row = await transaction
        .withTables<ProjectsTables>()
        .selectFrom('projects')
        .select('id')
        .where('id', '=', projectId)
        .where('status', '=', 'active')
        .forShare()
        .executeTakeFirst()
      return row !== undefined
    },
    async accountOf(transaction, projectId) {
      const row = await transaction
        .withTables<ProjectsTables>()
        .selectFrom('projects')
        .select('account_id')
        .where('id', '=', projectId)
        .executeTakeFirstOrThrow()
      return row.account_id
    },
    async planOf(projectId) {
      const row = await database
        .withTables<ProjectsTables>()
        .selectFrom('projects')
        .select('plan')
        .where('id', '=', projectId)
        .executeTakeFirstOrThrow()
      return row.plan
    },
  }
}
