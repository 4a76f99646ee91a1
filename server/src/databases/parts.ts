import type { DatabaseFailure } from '../contract/resources/databases.ts'
import type { Database, Transaction } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import type { Plans } from '../platform/plans.ts'
import type { SecretBox } from '../platform/secrets/secret-box.ts'
import type { Engine } from './engine.ts'

/** What databases tell the world. */
export type DatabaseEvent =
  | { readonly event: 'database.available'; readonly databaseId: string; readonly projectId: string }
  | {
      readonly event: 'database.failed'
      readonly databaseId: string
      readonly projectId: string
      readonly failure: DatabaseFailure
    }

/** What the functions of this feature work with. */
export interface DatabaseParts {
  readonly database: Database
  readonly secrets: SecretBox
  readonly engine: Engine
  readonly plans: Plans
  /** How long a deleted database is kept. */
  readonly retentionMs: number
  /** The tier of an account. */
  readonly tierOf: (transaction: Transaction, accountId: string) => Promise<string>
  /** Announces in the transaction that makes it so. */
  readonly announce: (transaction: Transaction, event: DatabaseEvent) => Promise<void>
  readonly logger: Logger
}
