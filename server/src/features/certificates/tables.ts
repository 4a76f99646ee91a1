import type { ColumnType, Generated, JSONColumnType, Selectable } from 'kysely'
import type { CertificateFailure, CertificateSource } from '../../contract/certificates.ts'
import type { Database, Transaction } from '../../platform/database.ts'

export type CertificateTables = {
  certificates: {
    id: string
    account_id: string
    /** Null for the server's own certificates, and for uploaded certificates of the whole account. */
    project_id: string | null
    app_id: string | null
    domain_id: string | null
    /** The names in lower case, with A-labels; a wildcard begins with `*.`. */
    names: string[]
    source: CertificateSource
    /** PEM: the certificate, then its issuers. Null, down to `expires_at`, until the certificate is obtained. */
    chain: string | null
    /** Encrypted. Also null for a revoked certificate. */
    private_key: Buffer | null
    issuer: string | null
    serial: string | null
    not_before: Date | null
    expires_at: Date | null
    attempted_at: Date | null
    /** Null for uploaded and revoked certificates. */
    next_attempt_at: Date | null
    attempts: Generated<number>
    failure: ColumnType<CertificateFailure | null, string | null | undefined, string | null>
    /** True while the leader works on the certificate, and until the next sweep if the result was not stored. */
    is_under_way: Generated<boolean>
    /** The unfinished order at the authority and its encrypted key, for the next attempt to resume. */
    order_url: string | null
    order_key: Buffer | null
    /** The time when the owner was told of the danger; null when the certificate is not in danger. */
    alerted_at: Date | null
    revocation_requested_at: Date | null
    revoked_at: Date | null
    created_at: Generated<Date>
  }
  acme_accounts: {
    directory: string
    /** Null until the authority knows the key. */
    url: string | null
    private_key: Buffer
    email: string
    created_at: Generated<Date>
  }
  acme_orders: {
    id: Generated<string>
    account_id: string
    registered_domain: string
    is_renewal: boolean
    created_at: Generated<Date>
  }
  acme_pauses: {
    /** `name:` and a name, a registered domain, or `*` for all certificates. */
    scope: string
    until: Date
    failure: JSONColumnType<CertificateFailure, string, string>
  }
  /** TXT records that are, or may be, in DNS. */
  acme_records: {
    name: string
    value: string
    created_at: Generated<Date>
  }
}

export type CertificateRow = Selectable<CertificateTables['certificates']>

export const tablesOf = (on: Database | Transaction) => on.withTables<CertificateTables>()

/** The channel on which a database trigger reports changes of certificates. */
export const certificatesChannel = 'fairlead_certificates'

/** These contexts bind an encrypted key to its row. */
export const keyContext = (id: string): string => `${id} private key`
export const orderKeyContext = (id: string): string => `${id} key of an order`
export const accountKeyContext = (directory: string): string => `key of the account at ${directory}`
