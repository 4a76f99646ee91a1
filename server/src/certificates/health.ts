import { sql } from 'kysely'
import type { Database } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import { tablesOf } from './tables.ts'

/** The certificates in danger, as `/readyz` and metrics report them. */
export interface CertificateHealth {
  /** Returns one sentence for each thing that does not work. Names of tenants are not told: everybody reads it. */
  problems(): readonly string[]
  /** Returns the days that are left to the certificate that ends first, by source. */
  daysLeft(): Readonly<Record<string, number>>
  /** Returns how many certificates have been due for over an hour without an attempt. */
  overdue(): number
  /** Reads the rows, for the next calls of the others. Logs when attempts become overdue. */
  check(): Promise<void>
}

/**
 * An attempt that is due begins within seconds, or is put off to another time. One that is this late shows a fault of the server, which
 * no failure of an attempt tells.
 */
const overdueAfter = sql`interval '1 hour'`

/** @param since when this server began: what was due while no server ran is given an hour from then */
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
        logger.error({ overdue }, 'certificates are due for over an hour, and are not tried')
      problems = [...problemsOf(await inDanger(database)), ...overdueProblem(overdue)]
      daysLeft = await leastDays(database)
    },
  }
}

interface InDanger {
  readonly own: readonly string[]
  readonly others: number
}

/** Reads the certificates whose owners were told. */
async function inDanger(database: Database): Promise<InDanger> {
  const rows = await tablesOf(database)
    .selectFrom('certificates')
    .select(['names', 'app_id', 'source'])
    .where('alerted_at', 'is not', null)
    .where('revoked_at', 'is', null)
    .execute()
  const own = rows.filter(({ app_id, source }) => app_id === null && source === 'automatic')
  return { own: own.flatMap(({ names }) => names), others: rows.length - own.length }
}

const problemsOf = ({ own, others }: InDanger): string[] => [
  ...own.map((name) => `the certificate of ${name} cannot be obtained or renewed`),
  ...(others === 0 ? [] : [`${others} certificate${others === 1 ? '' : 's'} of apps cannot be obtained or renewed`]),
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
