import type { ColumnType, Generated, Selectable } from 'kysely'
import type { DatabaseFailure, DatabaseStatus, SnapshotStatus } from '../contract/databases.ts'

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
    id: string
    /** The name of the role in the engine that owns the database, and of its database. */
    role_name: string
    /** The name of the other role that logs in to the database; null until its password is first rotated. */
    second_role: string | null
    /** The role that logs in now. Each rotation changes to the other one. */
    login: Generated<'owner' | 'second'>
    project_id: string
    name: string
    plan: string
    engine: 'embedded' | 'external'
    version: string
    host: string
    port: number
    /** The password of the role that logs in, encrypted. */
    password: Buffer
    /** Set while the engine does not have it yet: the next password, which the other role gets. */
    next_password: Buffer | null
    /** Set while both roles log in: the password of the other role, which works until `former_ends_at` at the latest. */
    former_password: Buffer | null
    former_ends_at: Date | null
    status: DatabaseStatus
    /** Set while provisioning: the snapshot whose content the database gets. */
    source_snapshot_id: string | null
    /** Set while provisioning: identifies the restoration under way, so that a repeated job does not restore twice. */
    restore_id: string | null
    restriction: Generated<Restriction>
    failure: Json<DatabaseFailure> | null
    provisioning_since: Generated<Date>
    /** Null until the database has been usable once; before that it holds nothing worth keeping. */
    available_at: Date | null
    /** Set when deleted: the time at which its content is removed. */
    drop_at: Date | null
    created_at: Generated<Date>
  }
  snapshots: {
    id: string
    /** The name of the copy in the engine. */
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

/** The restriction of a database that is too large: none, no writes, or no logins either. */
export type Restriction = 'none' | 'read_only' | 'no_login'
