import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import { type AttemptLimit, createAttemptLimiter } from '../../platform/attempts.ts'
import { type Database, lockByName, type Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { RunCheck } from './checker.ts'
import { type ParsedName, registrableDomain } from './names.ts'
import { contestsOf, newDomainToken } from './ownership.ts'
import { countDomains, electPrimary, findDomain, insertDomain, ofAccount, pageOfDomains, setPrimary } from './rows.ts'
import { type DomainRecord, type DomainRow, tablesOf } from './tables.ts'

export interface DomainHandlerDependencies {
  readonly database: Database
  readonly findApp: (on: Database | Transaction, projectId: string, appId: string) => Promise<object | undefined>
  /** Locks an app of a project until the transaction ends. Throws `not_found`. */
  readonly holdApp: (transaction: Transaction, projectId: string, appId: string) => Promise<unknown>
  readonly totals: Pick<Totals, 'assertRoom'>
  readonly plans: Plans
  readonly names: DomainNames
  readonly runCheck: RunCheck
  /** Returns the certificates of domains, by the ids of the domains. */
  readonly certificatesOf: (
    on: Database | Transaction,
    domains: readonly DomainRow[],
  ) => Promise<ReadonlyMap<string, DomainCertificate>>
}

export interface DomainNames {
  /** The reason why apps cannot have domains; null when they can. */
  readonly refusal: string | null
  readonly parse: (text: string) => ParsedName
  readonly unicodeOf: (name: string) => string
  readonly urlOf: (name: string) => string
  /** Returns the DNS records to set, by the ids of the domains. */
  readonly recordsOf: (
    on: Database | Transaction,
    domains: readonly DomainOfRecords[],
  ) => Promise<ReadonlyMap<string, readonly DomainRecord[]>>
}

export interface DomainOfRecords extends Pick<DomainRow, 'id' | 'app_id' | 'name'> {
  /** The value for the TXT record that proves ownership; null when no proof is needed. */
  readonly token: string | null
}

type Domain = ResponseBody<'domains.get'>

/** Counts by account and name, so that a domain that is removed and added again gets no further checks. */
const checkLimit: AttemptLimit = { name: 'domains.check', most: 6, windowMs: 60_000 }

export function domainHandlers(dependencies: DomainHandlerDependencies): HandlersOf<'domains'> {
  const { database, holdApp } = dependencies
  const limiter = createAttemptLimiter(database, checkLimit)
  const { assertApp, found, held } = accessTo(dependencies)
  const view = async (on: Database | Transaction, row: DomainRow) => onlyOne(await viewsOf(dependencies, on, [row]))

  return {
    async 'domains.list'({ project, params, page }) {
      await assertApp(database, project, params.app_id)
      const { rows, next } = await pageOfDomains(database, params.app_id, page)
      const { refusal } = dependencies.names
      return { body: { domains: await viewsOf(dependencies, database, rows), refusal }, next }
    },

    'domains.get': async ({ project, params }) => view(database, await found(database, project, params)),

    async 'domains.create'({ transaction, project, params, body, note }) {
      await holdApp(transaction, project.id, params.app_id)
      const row = await create(dependencies, transaction, { project, appId: params.app_id, ...body })
      note({ app_id: params.app_id, name: row.name })
      return view(transaction, row)
    },

    async 'domains.update'({ transaction, project, params, body, note }) {
      const row = await held(transaction, project, params)
      await change(transaction, row, body)
      note({ app_id: row.app_id, name: row.name, ...body })
      return view(transaction, await found(transaction, project, params))
    },

    async 'domains.delete'({ transaction, project, params, note }) {
      const { id, app_id, name } = await held(transaction, project, params)
      await tablesOf(transaction).deleteFrom('domains').where('id', '=', id).execute()
      await electPrimary(transaction, app_id)
      note({ app_id, name })
      return undefined
    },

    async 'domains.check'({ project, params, audit, note, request }) {
      const row = await found(database, project, params)
      assertCanServe(dependencies.names)
      const retryAfter = await limiter.take(`${row.account_id} ${row.name}`)
      if (retryAfter !== undefined) throw tooOften(retryAfter)
      note({ app_id: params.app_id, name: row.name })
      const within = (transaction: Transaction) => audit(transaction, row.id)
      await dependencies.runCheck(row, { isAsked: true, signal: request.signal, within })
      return view(database, await found(database, project, params))
    },
  }
}

type Params = Readonly<Record<'app_id' | 'id', string>>

/** Finds the domains of a project. All functions throw `not_found`. */
function accessTo({ findApp, holdApp }: Pick<DomainHandlerDependencies, 'findApp' | 'holdApp'>) {
  const assertApp = async (on: Database | Transaction, project: TenantProject, appId: string): Promise<void> => {
    if ((await findApp(on, project.id, appId)) === undefined) throw notFound()
  }
  const found = async (on: Database | Transaction, project: TenantProject, params: Params): Promise<DomainRow> => {
    await assertApp(on, project, params.app_id)
    return existing(await findDomain(on, params.app_id, params.id))
  }
  return {
    assertApp,
    found,
    /** Finds a domain and locks its app, as every change of the app's domains must. */
    async held(transaction: Transaction, project: TenantProject, params: Params): Promise<DomainRow> {
      await holdApp(transaction, project.id, params.app_id)
      return existing(await findDomain(transaction, params.app_id, params.id))
    },
  }
}

function assertCanServe({ refusal }: DomainNames): void {
  if (refusal !== null) throw new ApiError('invalid_request', refusal)
}

function tooOften(retryAfter: number): ApiError {
  const message = `The domain was checked ${checkLimit.most} times within a minute. Try again in ${retryAfter} seconds.`
  return new ApiError('invalid_request', message, { most: checkLimit.most, retry_after: retryAfter })
}

async function create(
  { names, totals, plans }: DomainHandlerDependencies,
  transaction: Transaction,
  asked: BodyOutput<'domains.create'> & { readonly project: TenantProject; readonly appId: string },
): Promise<DomainRow> {
  const { project, appId, redirect } = asked
  const { id: project_id, accountId: account_id } = project
  assertCanServe(names)
  const parsed = names.parse(asked.name)
  if (!parsed.ok) throw invalidRequest({ field: 'name', message: parsed.message })
  const { name } = parsed
  if (redirect && isWildcard(name)) throw invalidRequest(wildcardRedirects)
  // A concurrent creation may have the same name, or reach the app's limit.
  await lockByName(transaction, `new domains of ${account_id}`)
  await totals.assertRoom(transaction, account_id, 'domains', () => countDomains(transaction, { account_id }))
  await assertNew(transaction, account_id, { appId, name })
  const most = planNamed(plans, project.plan).domains
  if ((await countDomains(transaction, { app_id: appId })) >= most) throw planIsFull(project.plan, most)
  const token = newDomainToken()
  return insertDomain(transaction, {
    ...{ id: newId('domain'), app_id: appId, project_id, account_id, name, redirect, token },
    registered: registrableDomain(name.replace(/^\*\./, '')) ?? name,
  })
}

/** Names no other app, because it may be in a project that the key must not read. */
async function assertNew(
  transaction: Transaction,
  accountId: string,
  { appId, name }: { readonly appId: string; readonly name: string },
): Promise<void> {
  const taken = await ofAccount(transaction, accountId, name)
  if (taken === undefined) return
  const message =
    taken.app_id === appId
      ? 'is a domain of this app already'
      : 'is a domain of another app of this account: remove it there first'
  throw invalidRequest({ field: 'name', message })
}

function planIsFull(plan: string, most: number): ApiError {
  return new ApiError(
    'invalid_request',
    `name: the plan ${plan} of this project allows ${most} domains for an app, and it has them. Remove one that is not needed ` +
      'any more, or give the project a larger plan.',
    { field: 'name', most_domains: most },
  )
}

const isWildcard = (name: string): boolean => name.startsWith('*.')

const wildcardRedirects = { field: 'redirect', message: 'must be false for a wildcard' }

/** Throws `invalid_request` for a change that is not possible. The app is locked. */
async function change(transaction: Transaction, row: DomainRow, body: BodyOutput<'domains.update'>): Promise<void> {
  const isPrimary = body.primary ?? row.is_primary
  if (isPrimary && isWildcard(row.name)) {
    throw invalidRequest({
      field: 'primary',
      message: 'must not be a wildcard, to which visitors cannot be sent',
    })
  }
  if (isPrimary && row.status === 'pending') {
    throw invalidRequest({ field: 'primary', message: 'must be a domain that is verified: set its DNS records first' })
  }
  if (body.redirect === true && isWildcard(row.name)) throw invalidRequest(wildcardRedirects)
  if (body.redirect === true && isPrimary) {
    throw invalidRequest({
      field: 'redirect',
      message: 'must be false for the primary domain: make another one primary',
    })
  }
  // A new primary domain answers, even if it redirected before.
  const redirect = body.redirect ?? (body.primary === true ? false : row.redirect)
  await tablesOf(transaction).updateTable('domains').set({ redirect }).where('id', '=', row.id).execute()
  if (body.primary === true && !row.is_primary) await setPrimary(transaction, row.app_id, row.id)
  else await electPrimary(transaction, row.app_id)
}

async function viewsOf(
  { names, certificatesOf }: Pick<DomainHandlerDependencies, 'names' | 'certificatesOf'>,
  on: Database | Transaction,
  rows: readonly DomainRow[],
): Promise<Domain[]> {
  const contests = await contestsOf(on, rows)
  const certificates = await certificatesOf(on, rows)
  const records = await names.recordsOf(
    on,
    rows.map(({ id, app_id, name, token }) => ({ id, app_id, name, token: contests.has(id) ? token : null })),
  )
  return rows.map((row) =>
    domainView(row, {
      unicodeName: names.unicodeOf(row.name),
      url: names.urlOf(row.name),
      records: records.get(row.id) ?? [],
      certificate: certificates.get(row.id) ?? null,
    }),
  )
}

function onlyOne(views: readonly Domain[]): Domain {
  const [view] = views
  if (view === undefined) throw notFound()
  return view
}

function existing(row: DomainRow | undefined): DomainRow {
  if (row === undefined) throw notFound()
  return row
}

type DomainCertificate = NonNullable<ResponseBody<'domains.get'>['certificate']>

export interface DomainFacts {
  readonly unicodeName: string
  readonly url: string
  readonly records: readonly DomainRecord[]
  readonly certificate: DomainCertificate | null
}

function domainView(row: DomainRow, facts: DomainFacts): ResponseBody<'domains.get'> {
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
