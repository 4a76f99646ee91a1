import { sql } from 'kysely'
import type { CertificateFailure } from '../../contract/certificates.ts'
import type { Database } from '../../platform/database.ts'
import type { PauseScope } from './acme/errors.ts'
import { type AuthorityLimits, mayOrder, registeredDomain } from './renewal.ts'
import { type CertificateRow, tablesOf } from './tables.ts'

/** The period for the count of new certificates below a domain. */
const domainDays = 7
/** The period for the count of the whole server's orders. */
const accountHours = 3

const everything = '*'

/** The scope of a pause for the same names. No domain contains a colon. */
const scopeOfNames = ({ names }: Pick<CertificateRow, 'names'>): string => `name:${names[0] ?? ''}`

/** `isRenewal`: the owner has or had a certificate for the same names. Authorities count renewals separately. */
type Order = Pick<CertificateRow, 'account_id' | 'names'> & { readonly isRenewal: boolean }

const domainOf = ({ names }: Pick<CertificateRow, 'names'>): string => registeredDomain(names[0] ?? '')

export async function noteOrder(database: Database, order: Order): Promise<void> {
  await tablesOf(database)
    .insertInto('acme_orders')
    .values({ account_id: order.account_id, registered_domain: domainOf(order), is_renewal: order.isRenewal })
    .execute()
}

/** Returns the reason why an order must wait, so that every account gets its share; null when it need not wait. */
export async function limitReached(
  database: Database,
  limits: AuthorityLimits,
  order: Order,
  operatorId: string,
): Promise<CertificateFailure | null> {
  const domain = domainOf(order)
  const isOwn = sql<boolean>`account_id = ${order.account_id}`
  const isBelow = sql<boolean>`registered_domain = ${domain} and not is_renewal`
  const isLate = sql<boolean>`created_at > now() - make_interval(hours => ${accountHours})`
  const { rows } = await sql<Record<'below' | 'ownBelow' | 'late' | 'ownLate', number>>`
    select count(*) filter (where ${isBelow})::integer as below,
      count(*) filter (where ${isBelow} and ${isOwn})::integer as "ownBelow",
      count(*) filter (where ${isLate})::integer as late,
      count(*) filter (where ${isLate} and ${isOwn})::integer as "ownLate"
    from acme_orders where created_at > now() - make_interval(days => ${domainDays})
  `.execute(database)
  const [used] = rows
  if (used === undefined) return null
  const isOperator = order.account_id === operatorId
  if (!order.isRenewal && !mayOrder(limits.perDomain, { all: used.below, own: used.ownBelow }, isOperator)) {
    return waiting(`Certificate authorities issue few certificates below ${domain} in a week`)
  }
  return mayOrder(limits.perAccount, { all: used.late, own: used.ownLate }, isOperator)
    ? null
    : waiting('Certificate authorities issue few certificates to one server in a few hours')
}

const waiting = (reason: string): CertificateFailure => ({
  code: 'limit_reached',
  message: `${reason}, and the share of this account is used up. The certificate is obtained as soon as there is room again.`,
})

export interface Pause {
  readonly until: Date
  readonly failure: CertificateFailure
}

export async function pause(
  database: Database,
  scope: PauseScope,
  row: Pick<CertificateRow, 'names'>,
  { until, failure }: Pause,
): Promise<void> {
  const values = { until, failure: JSON.stringify(failure) }
  const scopes = { names: scopeOfNames(row), domain: domainOf(row), all: everything }
  await tablesOf(database)
    .insertInto('acme_pauses')
    .values({ scope: scopes[scope], ...values })
    .onConflict((conflict) => conflict.column('scope').doUpdateSet(values))
    .execute()
}

/** Ends the pause of all certificates, because the authority has answered. */
export async function endPause(database: Database): Promise<void> {
  await tablesOf(database).deleteFrom('acme_pauses').where('scope', '=', everything).execute()
}

export interface Pauses {
  /** The pause for all certificates, which also applies to revocations. */
  readonly all: Pause | undefined
  ofOrder(row: Pick<CertificateRow, 'names'>): Pause | undefined
}

export async function currentPauses(database: Database): Promise<Pauses> {
  const rows = await tablesOf(database)
    .selectFrom('acme_pauses')
    .selectAll()
    .where('until', '>', sql<Date>`now()`)
    // A later time was stored while the clock was wrong.
    .where('until', '<', sql<Date>`now() + interval '9 days'`)
    .execute()
  const byScope = new Map(rows.map((row) => [row.scope, row]))
  const all = byScope.get(everything)
  return { all, ofOrder: (row) => all ?? byScope.get(domainOf(row)) ?? byScope.get(scopeOfNames(row)) }
}

const keptDays = 30

/** Deletes old revoked certificates, and orders and pauses that no limit needs any more. */
export async function forgetCertificates(database: Database): Promise<void> {
  await tablesOf(database)
    .deleteFrom('certificates')
    .where('revoked_at', '<', sql<Date>`now() - make_interval(days => ${keptDays})`)
    .execute()
  await forgetHistory(database)
}

async function forgetHistory(database: Database): Promise<void> {
  const tables = tablesOf(database)
  await tables
    .deleteFrom('acme_orders')
    .where('created_at', '<', sql<Date>`now() - make_interval(days => ${domainDays + 1})`)
    .execute()
  await tables.deleteFrom('acme_pauses').where('until', '<', sql<Date>`now()`).execute()
}
