import type { ResponseBody } from '../contract/operations.ts'
import type { DomainRecord, DomainRow } from './tables.ts'

/** The certificate that is shown for a name. */
export type DomainCertificate = NonNullable<ResponseBody<'domains.get'>['certificate']>

export interface DomainFacts {
  readonly unicodeName: string
  /** The address of the app at this domain. */
  readonly url: string
  /** The records to set. */
  readonly records: readonly DomainRecord[]
  readonly certificate: DomainCertificate | null
}

export function domainView(row: DomainRow, facts: DomainFacts): ResponseBody<'domains.get'> {
  return {
    id: row.id,
    app_id: row.app_id,
    name: row.name,
    unicode_name: facts.unicodeName,
    status: row.status,
    primary: row.is_primary,
    redirect: row.redirect,
    records: [...facts.records],
    problems: [...row.problems],
    checked_at: row.checked_at?.toISOString() ?? null,
    next_check_at: row.next_check_at?.toISOString() ?? null,
    certificate: facts.certificate,
    url: facts.url,
    created_at: row.created_at.toISOString(),
  }
}
