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
    /** The server whose upload or deletion it is, or that has taken over. */
    server_id: string
    /** Until then other servers leave the file alone. */
    lease_until: Date
    created_at: Generated<Date>
  }
}
