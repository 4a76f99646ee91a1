import type { Background } from '../platform/background.ts'
import type { Database, Transaction } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import type { Plans } from '../platform/plans.ts'
import type { SecretBox } from '../platform/secrets/secret-box.ts'
import type { FileStore } from './disk.ts'

/** What this feature stands on. */
export interface StorageParts {
  readonly database: Database
  readonly store: FileStore
  readonly secrets: SecretBox
  readonly plans: Plans
  readonly background: Background
  readonly logger: Logger
  /** The server's public address without a path, such as `https://fairlead.example.com`. */
  readonly publicOrigin: string
  /** How long an upload may send nothing. */
  readonly idleTimeoutMs: number
  /** Keeps the project from being deleted until the transaction ends; false when it is too late. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
  /** Writes the event in the transaction of its file. */
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
