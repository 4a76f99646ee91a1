import type { ColumnType, Generated } from 'kysely'

/** PostgreSQL's bigint arrives as text. */
type Bytes = ColumnType<string, number, number>

/** The tables of this feature. */
export type StorageTables = {
  files: {
    id: string
    project_id: string
    name: string
    size: Bytes
    /** The media type that the upload named; `null` when that was not well-formed. */
    declared_type: string | null
    /** The media type that the first bytes suggest; `null` when they suggest none. */
    detected_type: string | null
    sha256: Buffer
    /** The secret of the download address, encrypted. */
    token: Buffer
    uploaded_at: Generated<Date>
  }
  storage_usage: {
    project_id: string
    bytes: Bytes
  }
  /** Never has a row for a file that has one in `files`. */
  pending_files: {
    file_id: string
    /** The start of the server whose upload or deletion it is, or that has taken over. */
    server_id: string
    /** The trace of that server's process. */
    process: string | null
    /** The project of an upload; `null` for deleted files. */
    project_id: string | null
    /** The space that an upload has reserved. */
    bytes: ColumnType<string, number | undefined, number>
    /** Until then other servers leave the file alone. */
    lease_until: Date
    created_at: Generated<Date>
  }
}
