import type { ColumnType, Generated, JSONColumnType, Selectable } from 'kysely'
import type { DomainStatus } from '../contract/domains.ts'
import type { ResponseBody } from '../contract/operations.ts'
import type { Database, Transaction } from '../platform/database.ts'

type View = ResponseBody<'domains.get'>

/** A finding about the DNS of a domain, in words. */
export type DomainProblem = View['problems'][number]
/** A DNS record to set. */
export type DomainRecord = View['records'][number]

export type DomainTables = {
  domains: {
    id: string
    app_id: string
    project_id: string
    account_id: string
    /** In lower case, with A-labels; a wildcard begins with `*.`. */
    name: string
    /** The part of the name that somebody has registered, such as `example.co.uk`. */
    registered: string
    /** Served unless `pending`. One name is served for one domain. */
    status: Generated<DomainStatus>
    /** At most one of an app. */
    is_primary: Generated<boolean>
    /** Its owner's choice; it has no effect while the domain is primary. */
    redirect: boolean
    /** The value of the TXT record that proves ownership of the name. Replaced when another account has proved its own. */
    token: string
    problems: JSONColumnType<readonly DomainProblem[], string | undefined, string>
    /** The time at which its owner asked for a check last. */
    asked_at: Generated<Date>
    /** The checks since then. */
    checks: Generated<number>
    /** The checks in a row that found its DNS wrong, and the time of the first one; of domains that are served. */
    wrong_checks: Generated<number>
    wrong_since: Date | null
    checked_at: Date | null
    /** Null when no check is made until the owner asks for one. */
    next_check_at: ColumnType<Date | null, never, Date | null>
    /** Null while it is pending. */
    served_since: Date | null
    created_at: Generated<Date>
  }
  /** The account at which a name was served last. */
  domain_holders: {
    name: string
    account_id: string
    held_at: Generated<Date>
  }
}

export type DomainRow = Selectable<DomainTables['domains']>

/** This feature's tables, inside a transaction or outside of one. */
export const tablesOf = (on: Database | Transaction) => on.withTables<DomainTables>()

/** The channel on which a trigger of the database tells of domains that are added, removed or served otherwise. */
export const domainsChannel = 'fairlead_domains'
