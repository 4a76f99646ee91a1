import { type Insertable, sql } from 'kysely'
import { type PageRequest, readPage } from '../../http/page.ts'
import { type Database, lockByName, type Transaction } from '../../platform/database.ts'
import { longestWaitMs } from './due.ts'
import { type DomainRow, type DomainTables, tablesOf } from './tables.ts'

export const servedStatuses = ['active', 'failing'] as const

export const pageOfDomains = (database: Database, appId: string, page: PageRequest) =>
  readPage(tablesOf(database).selectFrom('domains').selectAll().where('app_id', '=', appId), page, 'id')

export function findDomain(on: Database | Transaction, appId: string, id: string): Promise<DomainRow | undefined> {
  return tablesOf(on)
    .selectFrom('domains')
    .selectAll()
    .where('id', '=', id)
    .where('app_id', '=', appId)
    .executeTakeFirst()
}

export function lockDomain(transaction: Transaction, id: string): Promise<DomainRow | undefined> {
  return tablesOf(transaction).selectFrom('domains').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

/** Returns an account's domain of this name, in any status. */
export function ofAccount(
  on: Database | Transaction,
  accountId: string,
  name: string,
): Promise<Pick<DomainRow, 'id' | 'app_id'> | undefined> {
  return tablesOf(on)
    .selectFrom('domains')
    .select(['id', 'app_id'])
    .where('account_id', '=', accountId)
    .where('name', '=', name)
    .executeTakeFirst()
}

export async function countDomains(
  on: Database | Transaction,
  of: { readonly account_id: string } | { readonly app_id: string },
): Promise<number> {
  const all = tablesOf(on)
    .selectFrom('domains')
    .select(({ fn }) => fn.countAll<string>().as('count'))
  const own = 'app_id' in of ? all.where('app_id', '=', of.app_id) : all.where('account_id', '=', of.account_id)
  return Number((await own.executeTakeFirstOrThrow()).count)
}

export function insertDomain(
  transaction: Transaction,
  domain: Insertable<DomainTables['domains']>,
): Promise<DomainRow> {
  return tablesOf(transaction).insertInto('domains').values(domain).returningAll().executeTakeFirstOrThrow()
}

/** Serialises changes of ownership of all names below a registered domain. Call it before apps are locked. */
export const lockNames = (transaction: Transaction, { registered }: Pick<DomainRow, 'registered'>): Promise<void> =>
  lockByName(transaction, `names of ${registered}`)

/**
 * Returns domains whose check is due, longest due first.
 *
 * @param most.each the limit for each account, so that its domains do not block all others
 */
export async function dueDomains(
  database: Database,
  without: { readonly ids: readonly string[]; readonly accounts: readonly string[] },
  most: { readonly all: number; readonly each: number },
): Promise<DomainRow[]> {
  const place = sql<number>`row_number() over (partition by account_id order by next_check_at)`
  return tablesOf(database)
    .selectFrom((from) =>
      from
        .selectFrom('domains')
        .selectAll()
        .select(place.as('place'))
        .where(isDue)
        .where('id', '<>', sql<string>`all(${without.ids}::text[])`)
        .where('account_id', '<>', sql<string>`all(${without.accounts}::text[])`)
        .as('due'),
    )
    .selectAll()
    .where(sql<boolean>`place <= ${most.each}::integer`)
    .orderBy('next_check_at')
    .limit(most.all)
    .execute()
}

const isDue = sql<boolean>`(next_check_at <= now() or next_check_at > now() + make_interval(secs => ${2 * (longestWaitMs / 1000)}))`

/** Returns the milliseconds until the next check is due; null without a next check. */
export async function untilNextCheck(database: Database): Promise<number | null> {
  const { wait } = await tablesOf(database)
    .selectFrom('domains')
    .select(sql<number | null>`extract(epoch from min(next_check_at) - now())::float8`.as('wait'))
    .executeTakeFirstOrThrow()
  return wait === null ? null : Math.max(0, wait * 1000)
}

export async function postponeCheck(database: Database, id: string): Promise<void> {
  await tablesOf(database)
    .updateTable('domains')
    .set({ next_check_at: sql<Date>`now() + interval '5 minutes'` })
    .where('id', '=', id)
    .execute()
}

export interface ServedDomain {
  readonly id: string
  readonly appId: string
  readonly projectId: string
  readonly accountId: string
  readonly name: string
  readonly isPrimary: boolean
  /** The name that visitors are redirected to; null where the app answers. */
  readonly redirectTo: string | null
}

/** Returns the served names of some apps or of all apps; for each app the primary domain first, then the oldest. */
export async function servedDomains(
  on: Database | Transaction,
  appIds?: readonly string[],
): Promise<readonly ServedDomain[]> {
  const rows = await tablesOf(on)
    .selectFrom('domains')
    .leftJoin('domains as main', (join) =>
      join.onRef('main.app_id', '=', 'domains.app_id').on('main.is_primary', '=', true),
    )
    .select([
      'domains.id',
      'domains.app_id as appId',
      'domains.project_id as projectId',
      'domains.account_id as accountId',
      'domains.name',
      'domains.is_primary as isPrimary',
      'domains.redirect',
      'main.name as main',
    ])
    .where('domains.status', 'in', [...servedStatuses])
    .$if(appIds !== undefined, (query) => query.where('domains.app_id', '=', sql<string>`any(${appIds}::text[])`))
    .orderBy('domains.app_id')
    .orderBy('domains.is_primary', 'desc')
    .orderBy('domains.id')
    .execute()
  return rows.map(({ redirect, main, ...row }) => ({ ...row, redirectTo: redirect && !row.isPrimary ? main : null }))
}

/** Returns the names of apps by the apps' ids, the primary domain of each app first. */
export async function domainNamesOf(
  on: Database | Transaction,
  appIds: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const served = Map.groupBy(await servedDomains(on, appIds), ({ appId }) => appId)
  return new Map([...served].map(([appId, domains]) => [appId, domains.map(({ name }) => name)]))
}

/** Removes the domains of a project that is being deleted, under the locks of its apps. */
export async function removeOfProject(
  transaction: Transaction,
  lockApp: (transaction: Transaction, appId: string) => Promise<void>,
  projectId: string,
): Promise<void> {
  const own = await tablesOf(transaction)
    .selectFrom('domains')
    .select('app_id')
    .distinct()
    .where('project_id', '=', projectId)
    .orderBy('app_id')
    .execute()
  for (const { app_id } of own) await lockApp(transaction, app_id)
  await tablesOf(transaction).deleteFrom('domains').where('project_id', '=', projectId).execute()
}

type Candidate = Pick<DomainRow, 'id' | 'is_primary' | 'redirect'>

/**
 * Returns the new primary domain. Domains that do not redirect come first; among equals the present primary domain
 * wins, and otherwise the domain that is served longest.
 */
export function chosen<Domain extends Candidate>(served: readonly Domain[]): Domain | undefined {
  const answering = served.filter(({ redirect }) => !redirect)
  const candidates = answering.length === 0 ? served : answering
  return candidates.find((domain) => domain.is_primary) ?? candidates[0]
}

/** Gives an app whose domains have changed one primary domain, if any domain is eligible. The app must be locked. */
export async function electPrimary(transaction: Transaction, appId: string): Promise<void> {
  const served = await tablesOf(transaction)
    .selectFrom('domains')
    .select(['id', 'is_primary', 'redirect'])
    .where('app_id', '=', appId)
    .where('status', 'in', [...servedStatuses])
    .where('name', 'not like', '*%')
    .orderBy('served_since')
    .orderBy('id')
    .execute()
  const next = chosen(served)
  if (next !== undefined && !next.is_primary) await setPrimary(transaction, appId, next.id)
}

/** Makes a domain the primary domain of its app in place of another domain. The app must be locked. */
export async function setPrimary(transaction: Transaction, appId: string, id: string): Promise<void> {
  const domains = tablesOf(transaction).updateTable('domains')
  await domains.set({ is_primary: false }).where('app_id', '=', appId).where('is_primary', '=', true).execute()
  await domains.set({ is_primary: true }).where('id', '=', id).execute()
}
