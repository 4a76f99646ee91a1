import type { Generated, Selectable } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'

export type GitAccessTables = {
  /** The stored credentials of apps. */
  git_credentials: {
    app_id: string
    kind: 'token' | 'deploy_key'
    git_url: string
    /** The token or the private key, encrypted. */
    secret: Buffer
    /** Null for a token. */
    public_key: string | null
    created_at: Generated<Date>
  }
  /** The keys of ssh hosts that apps have met. */
  git_hosts: {
    app_id: string
    /** With the port. */
    host: string
    /** The type and the key in base64. */
    key: string
    met_at: Generated<Date>
  }
}

export type GitCredentialsRow = Selectable<GitAccessTables['git_credentials']>

/** This part's tables, inside a transaction or outside of one. */
export const tablesOf = (on: Database | Transaction) => on.withTables<GitAccessTables>()
