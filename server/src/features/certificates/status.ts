import { sql } from 'kysely'
import type { CertificateStatus } from '../../contract/certificates.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { wildcardAbove } from './pem.ts'
import { candidateOf, type ShownRow } from './rows.ts'
import { type ServedName, select } from './selection.ts'
import { tablesOf } from './tables.ts'

export function certificateView(row: ShownRow, now: Date): ResponseBody<'certificates.get'> {
  const time = (date: Date | null) => date?.toISOString() ?? null
  return {
    id: row.id,
    names: [...row.names],
    source: row.source,
    status: statusOf(row, now),
    project_id: row.project_id,
    app_id: row.app_id,
    domain_id: row.domain_id,
    issuer: row.issuer,
    serial: row.serial,
    not_before: time(row.not_before),
    expires_at: time(row.expires_at),
    attempted_at: time(row.attempted_at),
    under_way: row.is_under_way,
    next_attempt_at: time(row.next_attempt_at),
    attempts: row.attempts,
    failure: row.failure,
    revocation_requested_at: time(row.revocation_requested_at),
    created_at: row.created_at.toISOString(),
  }
}

function statusOf(row: Pick<ShownRow, 'revoked_at' | 'expires_at' | 'attempts'>, now: Date): CertificateStatus {
  if (row.revoked_at !== null) return 'revoked'
  if (row.expires_at === null) return 'pending'
  if (row.expires_at <= now) return 'expired'
  return row.attempts > 0 ? 'failing' : 'valid'
}

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

/** Returns the certificates of domains by the ids of the domains: the shown certificate, or else the awaited one. */
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

/** No operator, because domains are not names of the server, for which the operator's certificates are shown. */
const nobody = ''

const servedName = ({ id, name, account_id, project_id }: AskingDomain): ServedName => ({
  ...{ name, accountId: account_id, projectId: project_id },
  ...{ appId: null, domainId: id },
})

const isToBeRevoked = (row: { readonly revocation_requested_at: Date | null }) => row.revocation_requested_at !== null

export interface CertificateHealth {
  /** Returns one sentence for each problem. Names of tenants are left out, because everybody can read it. */
  problems(): readonly string[]
  /** Returns the days until the first certificate expires, by source. */
  daysLeft(): Readonly<Record<string, number>>
  /** Returns the number of certificates that have been due for over an hour without an attempt. */
  overdue(): number
  check(): Promise<void>
}

/**
 * A due attempt begins within seconds, or is postponed. An attempt that is this late means a fault of the server that
 * no failed attempt reports.
 */
const overdueAfter = sql`interval '1 hour'`

/** @param since the start of this server. What became due while no server ran gets an hour from then */
export function createCertificateHealth(
  database: Database,
  logger: Pick<Logger, 'error'>,
  since: Date,
): CertificateHealth {
  let problems: readonly string[] = []
  let overdue = 0
  let daysLeft: Readonly<Record<string, number>> = {}
  return {
    problems: () => problems,
    daysLeft: () => daysLeft,
    overdue: () => overdue,
    async check() {
      const before = overdue
      overdue = await countOverdue(database, since)
      if (overdue > 0 && before === 0)
        logger.error({ overdue }, 'certificates have been due for over an hour without an attempt')
      problems = [...dangersOf(await inDanger(database)), ...overdueProblem(overdue)]
      daysLeft = await leastDays(database)
    },
  }
}

interface InDanger {
  readonly own: readonly string[]
  readonly ofApps: number
}

async function inDanger(database: Database): Promise<InDanger> {
  const rows = await tablesOf(database)
    .selectFrom('certificates')
    .select(['names', 'app_id', 'source'])
    .where('alerted_at', 'is not', null)
    .where('revoked_at', 'is', null)
    .execute()
  const own = rows.filter(({ app_id, source }) => app_id === null && source === 'automatic')
  return { own: own.flatMap(({ names }) => names), ofApps: rows.length - own.length }
}

const dangersOf = ({ own, ofApps }: InDanger): string[] => [
  ...own.map((name) => `the certificate of ${name} cannot be obtained or renewed`),
  ...(ofApps === 0 ? [] : [`${ofApps} certificate${ofApps === 1 ? '' : 's'} of apps cannot be obtained or renewed`]),
]

const overdueProblem = (count: number): string[] =>
  count === 0
    ? []
    : [`${count} certificate${count === 1 ? '' : 's'} should have been obtained, renewed or revoked over an hour ago`]

async function countOverdue(database: Database, since: Date): Promise<number> {
  const { count } = await tablesOf(database)
    .selectFrom('certificates')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where(sql<Date>`greatest(next_attempt_at, ${since}::timestamptz)`, '<', sql<Date>`now() - ${overdueAfter}`)
    .executeTakeFirstOrThrow()
  return Number(count)
}

async function leastDays(database: Database): Promise<Readonly<Record<string, number>>> {
  const rows = await tablesOf(database)
    .selectFrom('certificates')
    .select(['source', sql<number>`extract(epoch from min(expires_at) - now())::float8 / 86400`.as('days')])
    .where('expires_at', '>', sql<Date>`now()`)
    .where('revoked_at', 'is', null)
    .groupBy('source')
    .execute()
  return Object.fromEntries(rows.map(({ source, days }) => [source, days]))
}

type Problem = ResponseBody<'certificates.problems'>['problems'][number]

const most = 20

export async function problemsOf(database: Database, projectId: string): Promise<Problem[]> {
  const rows = await tablesOf(database)
    .selectFrom('certificates')
    .select(['id', 'names', 'app_id', 'expires_at', 'failure'])
    .where('project_id', '=', projectId)
    .where('alerted_at', 'is not', null)
    .where('revocation_requested_at', 'is', null)
    .orderBy('expires_at')
    .orderBy('id')
    .limit(most)
    .execute()
  return rows.map((row) => ({ ...row, expires_at: row.expires_at?.toISOString() ?? null }))
}
