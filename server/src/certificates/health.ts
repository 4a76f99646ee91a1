import { sql } from 'kysely'
import type { Database } from '../platform/database.ts'
import { tablesOf } from './tables.ts'

/** The certificates in danger, as `/readyz` and metrics report them. */
export interface CertificateHealth {
  /** Returns one sentence for each thing that does not work. Names of tenants are not told: everybody reads it. */
  problems(): readonly string[]
  /** Returns the days that are left to the certificate that ends first, by source. */
  daysLeft(): Readonly<Record<string, number>>
  /** Reads the rows, for the next calls of the other two. */
  check(): Promise<void>
}

export function createCertificateHealth(database: Database): CertificateHealth {
  let problems: readonly string[] = []
  let daysLeft: Readonly<Record<string, number>> = {}
  return {
    problems: () => problems,
    daysLeft: () => daysLeft,
    async check() {
      problems = problemsOf(await inDanger(database))
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
