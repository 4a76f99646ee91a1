import type { Generated } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'

export type RegistriesTables = {
  /** The credentials of projects for registries of container images. */
  registries: {
    id: string
    project_id: string
    /** The host with its port, as references of images have it. */
    registry: string
    username: string
    /** Encrypted. */
    password: Buffer
    created_at: Generated<Date>
  }
}

/** This part's tables, inside a transaction or outside of one. */
export const tablesOf = (on: Database | Transaction) => on.withTables<RegistriesTables>()
