import type { ColumnType, Generated, Selectable } from 'kysely'
import type { DatabaseFailure, DatabaseStatus, SnapshotStatus } from '../../contract/databases.ts'
import { type ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'

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

const rowOf = (db: Database | Transaction, project: TenantProject, id: string) =>
  db
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .selectAll()
    .where('id', '=', id)
    .where('project_id', '=', project.id)

export function notAvailable(): ApiError {
  return invalidRequest({ field: 'id', message: 'this database is not available at the moment; see its status' })
}

type Json<T> = ColumnType<T, string, string>

export type DatabasesTables = {
  database_clusters: {
    version: string
    port: number
    created_at: Generated<Date>
  }
  databases: {
    id: string
    /** The name of the owner role in the engine, and of the database itself. */
    role_name: string
    /** The name of the other role that logs in to the database; null before the first rotation. */
    second_role: string | null
    /** The role that logs in at present. Each rotation changes to the other role. */
    login: Generated<'owner' | 'second'>
    project_id: string
    name: string
    plan: string
    engine: 'embedded' | 'external'
    version: string
    host: string
    port: number
    password: Buffer
    /** The next password, which the other role gets; set until the engine has it. */
    next_password: Buffer | null
    /** The password of the other role, set while both roles log in; it works until `former_ends_at` at the latest. */
    former_password: Buffer | null
    former_ends_at: Date | null
    status: DatabaseStatus
    /** The snapshot for the database's content; set while provisioning. */
    source_snapshot_id: string | null
    /** Identifies the running restoration, so that a repeated job does not restore twice; set while provisioning. */
    restore_id: string | null
    restriction: Generated<Restriction>
    failure: Json<DatabaseFailure> | null
    provisioning_since: Generated<Date>
    /** Null until the database was first available; before that it holds nothing worth keeping. */
    available_at: Date | null
    /** The time at which the content of a deleted database is removed. */
    drop_at: Date | null
    created_at: Generated<Date>
  }
  snapshots: {
    id: string
    copy_name: string
    database_id: string
    status: SnapshotStatus | 'deleting'
    /** A bigint, which `pg` reads and writes as text. */
    size_bytes: string | null
    failure: Json<DatabaseFailure> | null
    creating_since: Generated<Date>
    created_at: Generated<Date>
  }
}

export type DatabaseRow = Selectable<DatabasesTables['databases']>
export type SnapshotRow = Selectable<DatabasesTables['snapshots']>

/** The restriction of an oversized database: none, no writes, or neither writes nor logins. */
export type Restriction = 'none' | 'read_only' | 'no_login'
