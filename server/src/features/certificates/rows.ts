import { type Selectable, sql } from 'kysely'
import { type PageRequest, readPage } from '../../http/page.ts'
import type { Principal } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { Candidate, ServedName } from './selection.ts'
import { type CertificateRow, type CertificateTables, tablesOf } from './tables.ts'

/** The columns for the API, without private keys. */
const shown = [
  ...(['id', 'account_id', 'project_id', 'app_id', 'domain_id', 'names', 'source'] as const),
  ...(['issuer', 'serial', 'not_before', 'expires_at'] as const),
  ...(['attempted_at', 'next_attempt_at', 'attempts', 'failure', 'is_under_way', 'alerted_at'] as const),
  ...(['revocation_requested_at', 'revoked_at', 'created_at'] as const),
] as const

export type ShownRow = Pick<Selectable<CertificateTables['certificates']>, (typeof shown)[number]>

function visible(on: Database | Transaction, principal: Pick<Principal, 'accountId' | 'projectIds'>) {
  const own = tablesOf(on).selectFrom('certificates').select(shown).where('account_id', '=', principal.accountId)
  if (principal.projectIds === null) return own
  return own.where('project_id', '=', sql<string>`any(${[...principal.projectIds]}::text[])`)
}

export const pageOfCertificates = (database: Database, principal: Principal, page: PageRequest) =>
  readPage(visible(database, principal), page, 'id')

export const findCertificate = (
  on: Database | Transaction,
  principal: Principal,
  id: string,
): Promise<ShownRow | undefined> => visible(on, principal).where('id', '=', id).executeTakeFirst()

export const lockCertificate = (
  transaction: Transaction,
  principal: Principal,
  id: string,
): Promise<ShownRow | undefined> => visible(transaction, principal).where('id', '=', id).forUpdate().executeTakeFirst()

/** A certificate that is neither missing nor revoked, with the failure of its renewal. */
export type UsableCertificate = Candidate & Pick<CertificateRow, 'serial' | 'failure' | 'alerted_at'>

/** Returns all certificates that may be shown for names, or only the uploaded ones. */
export async function usableCertificates(
  on: Database | Transaction,
  { onlyUploaded = false } = {},
): Promise<readonly UsableCertificate[]> {
  const rows = await tablesOf(on)
    .selectFrom('certificates')
    .select(shown)
    .where('chain', 'is not', null)
    .where('revoked_at', 'is', null)
    .$if(onlyUploaded, (query) => query.where('source', '=', 'uploaded'))
    .orderBy('id')
    .execute()
  return rows.flatMap((row) => {
    const candidate = candidateOf(row)
    if (candidate === null) return []
    return [{ ...candidate, serial: row.serial, failure: row.failure, alerted_at: row.alerted_at }]
  })
}

type CandidateRow = Pick<
  CertificateRow,
  'id' | 'names' | 'source' | 'account_id' | 'project_id' | 'app_id' | 'domain_id' | 'not_before' | 'expires_at'
> & { readonly revocation_requested_at: Date | null }

/** Returns the candidate for a row; null for a certificate that is not obtained yet. */
export function candidateOf(row: CandidateRow): Candidate | null {
  if (row.not_before === null || row.expires_at === null) return null
  return {
    id: row.id,
    names: row.names,
    source: row.source,
    accountId: row.account_id,
    projectId: row.project_id,
    appId: row.app_id,
    domainId: row.domain_id,
    notBefore: row.not_before,
    expiresAt: row.expires_at,
    isBeingRevoked: row.revocation_requested_at !== null,
  }
}

/** The certificates that the server obtains automatically, including those not obtained yet. */
export type AutomaticCertificate = Pick<
  CertificateRow,
  'id' | 'names' | 'app_id' | 'domain_id' | 'attempts' | 'expires_at'
>

export function automaticCertificates(on: Database | Transaction): Promise<AutomaticCertificate[]> {
  return tablesOf(on)
    .selectFrom('certificates')
    .select(['id', 'names', 'app_id', 'domain_id', 'attempts', 'expires_at'])
    .where('source', '=', 'automatic')
    .where('revocation_requested_at', 'is', null)
    .execute()
}

const foreignKeyViolation = '23503'

/**
 * Adds the row of a certificate to obtain. When its owner already has a row for the name: a resting row without a valid
 * certificate becomes due at once, and any other row stays unchanged. Does nothing when the app or the domain has just
 * been removed.
 */
export async function insertAutomatic(on: Database, name: ServedName): Promise<void> {
  const columns = sql`(names, coalesce(domain_id, ''), coalesce(app_id, ''))`
  try {
    await sql`
      insert into certificates as existing
        (id, account_id, project_id, app_id, domain_id, names, source, next_attempt_at)
      values (${newId('certificate')}, ${name.accountId}, ${name.projectId}, ${name.appId}, ${name.domainId},
        array[${name.name}], 'automatic', now())
      on conflict ${columns} where source = 'automatic' and revocation_requested_at is null
      do update set next_attempt_at = now()
      where existing.next_attempt_at > now() and existing.attempts = 0 and existing.failure is null and not existing.is_under_way
        and (existing.chain is null or existing.expires_at <= now())
    `.execute(on)
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== foreignKeyViolation) throw error
  }
}

export async function isReplacement(on: Database, { id, account_id, names }: CertificateRow): Promise<boolean> {
  const replaced = await tablesOf(on)
    .selectFrom('certificates')
    .select('id')
    .where('account_id', '=', account_id)
    .where('names', '=', sql<string[]>`${names}::text[]`)
    .where('id', '<>', id)
    .where('revocation_requested_at', 'is not', null)
    .limit(1)
    .executeTakeFirst()
  return replaced !== undefined
}

export const servedNameOf = (
  row: Pick<CertificateRow, 'names' | 'account_id' | 'project_id' | 'app_id' | 'domain_id'>,
): ServedName => ({
  name: row.names[0] ?? '',
  accountId: row.account_id,
  projectId: row.project_id,
  appId: row.app_id,
  domainId: row.domain_id,
})

export function among(names: readonly Owned[]): (name: Owned) => boolean {
  const keys = new Set(names.map(keyOf))
  return (name) => keys.has(keyOf(name))
}

type Owned = Pick<ServedName, 'name' | 'appId' | 'domainId'>

const keyOf = ({ name, appId, domainId }: Owned): string => `${name} ${appId} ${domainId}`
