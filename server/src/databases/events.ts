import type { DatabaseFailure } from '../contract/databases.ts'
import type { Transaction } from '../platform/database.ts'

/** A change of a database that is announced to the account of the project. */
export type DatabaseEvent =
  | { readonly event: 'database.available'; readonly databaseId: string; readonly projectId: string }
  | {
      readonly event: 'database.failed'
      readonly databaseId: string
      readonly projectId: string
      readonly failure: DatabaseFailure
    }

/** Records an event in the transaction that makes it true, so that both are committed or neither. */
export type Announce = (transaction: Transaction, event: DatabaseEvent) => Promise<void>
