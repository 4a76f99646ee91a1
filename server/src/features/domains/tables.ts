import type { ColumnType, Generated, JSONColumnType, Selectable } from 'kysely'
import type { DomainStatus } from '../../contract/domains.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { Database, Transaction } from '../../platform/database.ts'

type View = ResponseBody<'domains.get'>

export type DomainProblem = View['problems'][number]
export type DomainRecord = View['records'][number]

export type DomainTables = {
  domains: {
    id: string
    app_id: string
    project_id: string
    account_id: string
    /** The name in lower case and A-labels; a wildcard begins with `*.`. */
    name: string
    /** The registered part of the name, such as `example.co.uk`. */
    registered: string
    /** The domain is served unless `pending`. A name is served for only one domain. */
    status: Generated<DomainStatus>
    /** True for at most one domain of an app. */
    is_primary: Generated<boolean>
    /** The owner's choice; it has no effect while the domain is primary. */
    redirect: boolean
    /** The value of the TXT record that proves ownership. It is replaced when another account has proved ownership. */
    token: string
    problems: JSONColumnType<readonly DomainProblem[], string | undefined, string>
    asked_at: Generated<Date>
    /** The number of checks since then. */
    checks: Generated<number>
    /** The consecutive checks that found the DNS of a served domain wrong, and the time of the first of them. */
    wrong_checks: Generated<number>
    wrong_since: Date | null
    checked_at: Date | null
    /** Null when no check is made until the owner requests one. */
    next_check_at: ColumnType<Date | null, never, Date | null>
    /** Null while the domain is pending. */
    served_since: Date | null
    created_at: Generated<Date>
  }
  /** The account that last served a name. */
  domain_holders: {
    name: string
    account_id: string
    held_at: Generated<Date>
  }
}

export type DomainRow = Selectable<DomainTables['domains']>

export const tablesOf = (on: Database | Transaction) => on.withTables<DomainTables>()

/** The channel on which a database trigger reports domains that are added, removed or served differently. */
export const domainsChannel = 'fairlead_domains'
