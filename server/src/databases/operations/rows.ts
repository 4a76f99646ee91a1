import { type ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { DatabaseRow, DatabasesTables } from '../tables.ts'

const rowOf = (db: Database | Transaction, project: TenantProject, id: string) =>
  db
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .selectAll()
    .where('id', '=', id)
    .where('project_id', '=', project.id)

/** Returns the row of a project's database. Throws `not_found`. */
export async function findDatabase(
  db: Database | Transaction,
  project: TenantProject,
  id: string,
): Promise<DatabaseRow> {
  const row = await rowOf(db, project, id).executeTakeFirst()
  if (row === undefined) throw notFound()
  return row
}

/** Returns the row, locked until the transaction ends. Throws `not_found`. */
export async function lockDatabase(trx: Transaction, project: TenantProject, id: string): Promise<DatabaseRow> {
  const row = await rowOf(trx, project, id).forUpdate().executeTakeFirst()
  if (row === undefined) throw notFound()
  return row
}

export function notAvailable(): ApiError {
  return invalidRequest({ field: 'id', message: 'this database is not available at the moment; see its status' })
}
