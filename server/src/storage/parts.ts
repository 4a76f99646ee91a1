import type { Background } from '../platform/background.ts'
import type { RequestTransactions } from '../platform/database/request-transactions.ts'
import type { Database, Transaction } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import type { Plans } from '../platform/plans.ts'
import type { FileAddresses } from './address.ts'
import type { PendingFiles } from './pending.ts'
import type { FileStore } from './store.ts'

/** The dependencies of this feature. */
export interface StorageParts {
  readonly database: Database
  readonly transact: RequestTransactions
  readonly store: FileStore
  readonly pending: PendingFiles
  readonly addresses: FileAddresses
  readonly plans: Plans
  readonly background: Background
  readonly logger: Logger
  /** The longest pause of an upload, in milliseconds. */
  readonly idleTimeoutMs: number
  /** Keeps the project from being deleted until the transaction ends; false when it is not active any more. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
  /** Writes the event `file.uploaded` in the transaction that inserts the file's row. */
  readonly announceUpload: (transaction: Transaction, uploaded: UploadedFile) => Promise<void>
}

export interface UploadedFile {
  readonly accountId: string
  readonly projectId: string
  readonly fileId: string
  readonly name: string
  /** Bytes. */
  readonly size: number
  readonly url: string
}
