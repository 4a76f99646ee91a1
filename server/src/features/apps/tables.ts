import type { ColumnType, Generated } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'

export type AppsTables = {
  apps: {
    id: string
    project_id: string
    name: string
    /** The process runtime derives the user of the app's processes from this number. */
    number: ColumnType<number, never, never>
    port: number | null
    hostname: string | null
    /** Increments with every creation, rollback and restart of a deployment of the app. */
    generation: Generated<number>
    created_at: Generated<Date>
  }
  app_traffic: {
    app_id: string
    hour: Date
    requests: string
    errors: string
  }
}

export const tablesOf = (on: Database | Transaction) => on.withTables<AppsTables>()
