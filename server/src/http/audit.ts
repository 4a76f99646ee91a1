import type { Transaction } from '../platform/database.ts'

/** Who did what. `operation` is its name in the contract; nothing of a body is in here, so no secret is either. */
export interface AuditEntry {
  readonly accountId: string
  readonly actor: {
    readonly type: 'key' | 'user' | 'command'
    readonly id: string | null
    readonly name: string | null
  }
  /** Of the client; `null` where there is none. */
  readonly address: string | null
  readonly requestId: string | null
  readonly operation: string
  readonly projectId: string | null
  readonly resourceId: string | null
}

/** Writes an entry that holds exactly when the change does. */
export type Audit = (transaction: Transaction, entry: AuditEntry) => Promise<void>
