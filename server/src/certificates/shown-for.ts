import { sql } from 'kysely'
import type { Database, Transaction } from '../platform/database.ts'
import { wildcardAbove } from './pem/names.ts'
import { statusOf } from './presentation.ts'
import { candidateOf } from './rows.ts'
import { type ServedName, select } from './serving/selection.ts'
import { tablesOf } from './tables.ts'

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

/** Returns the certificates of domains, by the ids of the domains: the one that is shown, or the one that is waited for. */
export async function certificatesOfDomains(
  on: Database | Transaction,
  domains: readonly AskingDomain[],
): Promise<ReadonlyMap<string, ShownCertificate>> {
  if (domains.length === 0) return new Map()
  const names = [...new Set(domains.flatMap(({ name }) => [name, wildcardAbove(name)]))]
  const rows = await tablesOf(on)
    .selectFrom('certificates')
    .select(['id', 'names', 'source', 'account_id', 'project_id', 'app_id', 'domain_id'])
    .select(['not_before', 'expires_at', 'revoked_at', 'attempts', 'revocation_requested_at'])
    .where('account_id', '=', sql<string>`any(${[...new Set(domains.map((each) => each.account_id))]}::text[])`)
    .where(sql<boolean>`names && ${names}::text[]`)
    .where('revoked_at', 'is', null)
    .orderBy('id', 'desc')
    .execute()
  const candidates = rows.map(candidateOf).filter((each) => each !== null)
  const now = new Date()
  const found = domains.flatMap((domain): [string, ShownCertificate][] => {
    const [shownId] = select(candidates, [servedName(domain)], nobody, now).values()
    const [awaited] = rows
      .filter(({ source, domain_id }) => source === 'automatic' && domain_id === domain.id)
      .toSorted((one, other) => Number(isToBeRevoked(one)) - Number(isToBeRevoked(other)))
    const best = rows.find(({ id }) => id === shownId) ?? awaited
    if (best === undefined) return []
    const expires_at = best.expires_at?.toISOString() ?? null
    return [[domain.id, { id: best.id, status: statusOf(best, now), expires_at }]]
  })
  return new Map(found)
}

/** Domains are no names of the server, for which the operator's certificates are shown. */
const nobody = ''

const servedName = ({ id, name, account_id, project_id }: AskingDomain): ServedName => ({
  ...{ name, accountId: account_id, projectId: project_id },
  ...{ appId: null, domainId: id },
})

const isToBeRevoked = (row: { readonly revocation_requested_at: Date | null }) => row.revocation_requested_at !== null
