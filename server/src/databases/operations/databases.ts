import { sql } from 'kysely'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../../http/page.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { BatchedRead } from '../../platform/database/batcher.ts'
import type { Transaction } from '../../platform/database.ts'
import type { DatabasesTables } from '../tables.ts'
import { type CreationDependencies, createDatabase } from './create.ts'
import { type DeletionDependencies, deleteDatabase } from './delete.ts'
import { type Detail, detailOf, listItem } from './presentation.ts'
import { createDatabaseCount } from './quota.ts'
import { restoreDatabase } from './restore.ts'
import { type Rotation, type RotationDependencies, rotatePassword } from './rotate-password.ts'
import { findDatabase } from './rows.ts'

type Created = ResponseBody<'databases.create'>

/** The operations on databases. With a database id they throw `not_found` when the project has no such database. */
export interface Databases {
  /** Throws `invalid_request` for an unknown version or plan, and when a limit of the project or account is reached. */
  create(transaction: Transaction, project: TenantProject, input: BodyOutput<'databases.create'>): Promise<Created>
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'databases.list'>>>
  get(project: TenantProject, id: string, transaction?: Transaction): Promise<Detail>
  delete(transaction: Transaction, project: TenantProject, id: string): Promise<void>
  restore(transaction: Transaction, project: TenantProject, id: string): Promise<Detail>
  rotatePassword(transaction: Transaction, project: TenantProject, id: string): Promise<Rotation>
  /** The databases of some projects, newest first, without deleted ones. */
  ofProjects(projectIds: readonly string[]): Promise<{ id: string; name: string; project_id: string }[]>
  /** Returns the number of a project's databases, without deleted ones. */
  readonly count: BatchedRead<string, number>
}

export type DatabasesDependencies = CreationDependencies & DeletionDependencies & RotationDependencies

export function createDatabases(dependencies: DatabasesDependencies): Databases {
  const { database } = dependencies
  return {
    create: (transaction, project, input) => createDatabase(dependencies, transaction, project, input),

    async list(project, page) {
      const all = database
        .withTables<DatabasesTables>()
        .selectFrom('databases')
        .selectAll()
        .where('project_id', '=', project.id)
      const { rows, next } = await readPage(all, page, 'id')
      return { body: { databases: rows.map(listItem) }, next }
    },

    get: async (project, id, transaction) =>
      detailOf(dependencies, await findDatabase(transaction ?? database, project, id)),

    delete: (transaction, project, id) => deleteDatabase(dependencies, transaction, project, id),
    restore: (transaction, project, id) => restoreDatabase(dependencies, transaction, project, id),
    rotatePassword: (transaction, project, id) => rotatePassword(dependencies, transaction, project, id),
    ofProjects: (projectIds) =>
      database
        .withTables<DatabasesTables>()
        .selectFrom('databases')
        .select(['id', 'name', 'project_id'])
        .where('project_id', '=', sql<string>`any(${[...projectIds]}::text[])`)
        .where('status', '!=', 'deleting')
        .orderBy('id', 'desc')
        .execute(),

    count: createDatabaseCount(database),
  }
}
