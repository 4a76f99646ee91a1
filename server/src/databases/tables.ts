import type { ColumnType, Generated, Selectable } from 'kysely'
import type { DatabaseFailure, DatabaseStatus, SnapshotStatus } from '../contract/resources/databases.ts'

type Json<T> = ColumnType<T, string, string>

/** The tables of this feature. */
export type DatabasesTables = {
  database_clusters: {
    /** The major version of PostgreSQL. */
    version: string
    port: number
    created_at: Generated<Date>
  }
  databases: {
    /** Also the name of the database and of its role in the engine. */
    id: string
    project_id: string
    name: string
    plan: string
    engine: 'embedded' | 'external'
    version: string
    host: string
    port: number
    /** The role's password, encrypted. */
    password: Buffer
    status: DatabaseStatus
    /** While provisioning: what the database is to hold. */
    source_snapshot_id: string | null
    /** While provisioning: names the one replacement of the content that is under way. */
    restore_id: string | null
    over_limit: Generated<OverLimit>
    failure: Json<DatabaseFailure> | null
    provisioning_since: Generated<Date>
    /** Null while it has never been usable, so that there is nothing in it to keep. */
    available_at: Date | null
    /** Of a deleted one: when its content goes. */
    drop_at: Date | null
    created_at: Generated<Date>
  }
  snapshots: {
    /** Also the name of the copy in the engine. */
    id: string
    database_id: string
    status: SnapshotStatus | 'deleting'
    /** Written as text: it may be beyond what a number holds. */
    size_bytes: string | null
    failure: Json<DatabaseFailure> | null
    creating_since: Generated<Date>
    created_at: Generated<Date>
  }
}

export type DatabaseRow = Selectable<DatabasesTables['databases']>
export type SnapshotRow = Selectable<DatabasesTables['snapshots']>

/** What a database's size costs it: nothing, its writes, or its logins as well. */
export type OverLimit = 'none' | 'read_only' | 'closed'
