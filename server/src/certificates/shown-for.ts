import { sql } from 'kysely'
import type { Database } from '../platform/database.ts'
import { covers, wildcardAbove } from './pem/names.ts'
import { statusOf } from './presentation.ts'
import { type CertificateRow, tablesOf } from './tables.ts'

/** A domain whose certificate is looked for. */
export interface AskingDomain {
  readonly id: string
  readonly name: string
  readonly account_id: string
  readonly project_id: string
}

export interface ShownCertificate {
  readonly id: string
  readonly status: string
  readonly expires_at: string | null
}

type Row = Pick<
  CertificateRow,
  'id' | 'names' | 'source' | 'account_id' | 'project_id' | 'domain_id' | 'expires_at' | 'revoked_at' | 'attempts'
> & { readonly revocation_requested_at: Date | null }

/** Returns the certificates of domains, by the ids of the domains: the one that is shown, or the one that is waited for. */
export async function certificatesOfDomains(
  database: Database,
  domains: readonly AskingDomain[],
): Promise<ReadonlyMap<string, ShownCertificate>> {
  if (domains.length === 0) return new Map()
  const names = [...new Set(domains.flatMap(({ name }) => [name, wildcardAbove(name)]))]
  const rows: readonly Row[] = await tablesOf(database)
    .selectFrom('certificates')
    .select(['id', 'names', 'source', 'account_id', 'project_id', 'domain_id'])
    .select(['expires_at', 'revoked_at', 'attempts', 'revocation_requested_at'])
    .where('account_id', '=', sql<string>`any(${[...new Set(domains.map((each) => each.account_id))]}::text[])`)
    .where(sql<boolean>`names && ${names}::text[]`)
    .where('revoked_at', 'is', null)
    .orderBy('id', 'desc')
    .execute()
  const now = new Date()
  const found = domains.flatMap((domain): [string, ShownCertificate][] => {
    const [best] = rows
      .filter((row) => isFor(row, domain, now))
      .toSorted((one, other) => rank(one, now) - rank(other, now))
    if (best === undefined) return []
    const expires_at = best.expires_at?.toISOString() ?? null
    return [[domain.id, { id: best.id, status: statusOf(best, now), expires_at }]]
  })
  return new Map(found)
}

function isFor(row: Row, domain: AskingDomain, now: Date): boolean {
  if (row.account_id !== domain.account_id) return false
  if (row.source === 'automatic') return row.domain_id === domain.id
  const isValid = row.expires_at !== null && row.expires_at > now
  return isValid && covers(row.names, domain.name) && (row.project_id === null || row.project_id === domain.project_id)
}

/** The place in the order in which certificates are chosen for visitors: uploaded ones first, then valid ones. */
function rank({ source, expires_at, revocation_requested_at }: Row, now: Date): number {
  if (source === 'uploaded') return 0
  const isValid = expires_at !== null && expires_at > now
  return (isValid ? 1 : 3) + (revocation_requested_at === null ? 0 : 1)
}
