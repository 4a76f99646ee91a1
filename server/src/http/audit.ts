import type { Transaction } from '../platform/database.ts'

/** An entry of the audit log. `operation` is a name of the contract. Bodies are left out, and with them all secrets. */
export interface AuditEntry {
  readonly accountId: string
  readonly actor: {
    readonly type: 'key' | 'user' | 'command' | 'workflow'
    readonly id: string | null
    readonly name: string | null
  }
  /** The client's network address; `null` for the command line. */
  readonly address: string | null
  readonly requestId: string | null
  readonly operation: string
  readonly projectId: string | null
  readonly resourceId: string | null
  /** Facts that the other fields do not tell; nothing secret. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** Writes an entry in the transaction of the change, so that it exists exactly when the change does. */
export type Audit = (transaction: Transaction, entry: AuditEntry) => Promise<void>
