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
    /** The media type that the upload named, if it was one. */
    declared_type: string | null
    /** The media type that the first bytes tell, if they tell one. */
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
}
