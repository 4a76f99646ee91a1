import { isId } from '../contract/ids.ts'
import type { TenantProject } from '../http/principal.ts'
import type { Database } from '../platform/database.ts'
import type { ProjectsTables } from './tables.ts'

/** Which project belongs to whom: the one place where tenants are told apart. */
export interface Tenancy {
  /** The project if it belongs to this account, else `undefined`; whether it exists elsewhere is not to be seen. */
  find(accountId: string, projectId: string): Promise<TenantProject | undefined>
  /** The account of a project; for the server's own work, never for a request. */
  accountOf(projectId: string): Promise<string>
}

export function createTenancy({ database }: { database: Database }): Tenancy {
  const db = database.withTables<ProjectsTables>()
  const owners = db.selectFrom('projects').select(['id', 'account_id as accountId'])

  return {
    async find(accountId, projectId) {
      // What cannot be an id is not asked for: the database would choke on some of it.
      if (!isId('project', projectId)) return undefined
      return owners.where('id', '=', projectId).where('account_id', '=', accountId).executeTakeFirst()
    },
    async accountOf(projectId) {
      return (await owners.where('id', '=', projectId).executeTakeFirstOrThrow()).accountId
    },
  }
}
