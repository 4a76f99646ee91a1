import type { ColumnType, Generated } from 'kysely'
import type { Database, Transaction } from '../platform/database.ts'

/** The tables of this feature. */
export type AppsTables = {
  apps: {
    id: string
    project_id: string
    name: string
    /** A serial number over all projects; the process runtime derives the user of the app's processes from it. */
    number: ColumnType<number, never, never>
    port: number | null
    hostname: string | null
    /** Counts up with every creation, rollback and restart of a deployment of the app. */
    generation: Generated<number>
    created_at: Generated<Date>
  }
  /** The requests of one hour, and how many of them were answered with an error. */
  app_traffic: {
    app_id: string
    hour: Date
    requests: string
    errors: string
  }
}

/** This feature's tables, inside a transaction or outside of one. */
export const tablesOf = (on: Database | Transaction) => on.withTables<AppsTables>()
