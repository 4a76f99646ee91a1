import { type RawBuilder, sql, type UpdateObject } from 'kysely'
import type { CertificateFailure } from '../../contract/resources/hosts/certificates.ts'
import { type Database, fromNow } from '../../platform/database.ts'
import type { Held } from '../../platform/marks.ts'
import { type CertificateRow, type CertificateTables, tablesOf } from '../tables.ts'

/** The longest wait for an attempt. A time further ahead was stored while the clock was wrong. */
const longestWait = sql`interval '2000 days'`

/**
 * Returns certificates to obtain, renew or revoke now. The server's own come first; then the accounts take turns, however many
 * certificates each of them waits for.
 */
export function dueCertificates(
  database: Database,
  without: readonly string[],
  limit: number,
): Promise<CertificateRow[]> {
  const isOwn = sql<boolean>`(app_id is null and domain_id is null)`
  const turn = sql<number>`row_number() over (partition by account_id, ${isOwn} order by next_attempt_at, id)`
  return tablesOf(database)
    .selectFrom('certificates')
    .selectAll()
    .where(sql<boolean>`(next_attempt_at <= now() or next_attempt_at > now() + ${longestWait})`)
    .where('id', '<>', sql<string>`all(${[...without]}::text[])`)
    .orderBy(isOwn, 'desc')
    .orderBy(turn)
    .orderBy('next_attempt_at')
    .limit(limit)
    .execute()
}

/** Returns the milliseconds until the next one is due that is not among these; null when none is. */
export async function untilNextDue(database: Database, without: readonly string[]): Promise<number | null> {
  const { wait } = await tablesOf(database)
    .selectFrom('certificates')
    .select(sql<number | null>`extract(epoch from min(next_attempt_at) - now())::float8`.as('wait'))
    .where('id', '<>', sql<string>`all(${[...without]}::text[])`)
    .executeTakeFirstOrThrow()
  return wait === null ? null : Math.max(0, wait * 1000)
}

/**
 * Notes that an attempt begins. Returns false when the certificate is not due any more, or gone.
 *
 * @param ifFailed the time of the next attempt, until the end of this one sets another, or a release
 */
export async function claim(database: Database, { id }: Held, now: Date, ifFailed: Date): Promise<boolean> {
  const { numUpdatedRows } = await tablesOf(database)
    .updateTable('certificates')
    .set({ is_under_way: true, attempted_at: now, next_attempt_at: ifFailed })
    .where('id', '=', id)
    .where('is_under_way', '=', false)
    .where(sql<boolean>`(next_attempt_at <= now() or next_attempt_at > now() + ${longestWait})`)
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

/** Returns the ids of the certificates that have the mark of an attempt. */
export async function markedCertificates(database: Database): Promise<string[]> {
  const rows = await tablesOf(database)
    .selectFrom('certificates')
    .select('id')
    .where('is_under_way', '=', true)
    .execute()
  return rows.map(({ id }) => id)
}

/** Makes attempts due that an earlier leader has left. Those with an order resume it. */
export const releaseLeft = (database: Database, ids: readonly string[]): Promise<void> =>
  release(database, ids, { next_attempt_at: fromNow(0) })

/** Makes attempts of this leader due in `waitMs` whose end was not stored. They count as failed, so that their owners are told in time. */
export const releaseNotStored = (database: Database, ids: readonly string[], waitMs: number): Promise<void> =>
  release(database, ids, {
    next_attempt_at: fromNow(waitMs),
    attempts: sql<number>`attempts + 1`,
    failure: JSON.stringify(notStored),
  })

const notStored: CertificateFailure = {
  code: 'server_error',
  message:
    'The server could not store how the last attempt ended, as when its database was away. It tries again by itself.',
}

async function release(
  database: Database,
  ids: readonly string[],
  changes: UpdateObject<CertificateTables, 'certificates'>,
): Promise<void> {
  await tablesOf(database)
    .updateTable('certificates')
    .set({ is_under_way: false, ...changes })
    .where('id', '=', sql<string>`any(${[...ids]}::text[])`)
    .where('is_under_way', '=', true)
    .execute()
}

/** Puts an attempt off without counting it as one that failed. */
export async function postpone(
  database: Database,
  ids: readonly string[],
  until: Date | RawBuilder<Date>,
  failure: CertificateFailure | null,
): Promise<void> {
  await tablesOf(database)
    .updateTable('certificates')
    .set({ next_attempt_at: until, ...(failure === null ? {} : { failure: JSON.stringify(failure) }) })
    .where('id', '=', sql<string>`any(${[...ids]}::text[])`)
    .where('is_under_way', '=', false)
    .execute()
}

const restHours = 24
/** The columns of a certificate that is not needed: it is in no danger, and has no order. */
const calm = { attempts: 0, failure: null, alerted_at: null, order_url: null, order_key: null } as const

/**
 * Rests certificates that are not needed, because their names are not served here or have another certificate: they are not renewed,
 * and removed once they are of no use. They come back when they are needed again.
 */
export async function rest(database: Database, ids: readonly string[]): Promise<void> {
  const any = sql<string>`any(${[...ids]}::text[])`
  await tablesOf(database)
    .deleteFrom('certificates')
    .where('id', '=', any)
    .where(({ or, eb }) => or([eb('chain', 'is', null), eb('expires_at', '<=', sql<Date>`now()`)]))
    .execute()
  await tablesOf(database)
    .updateTable('certificates')
    .set({ next_attempt_at: sql<Date>`now() + make_interval(hours => ${restHours})`, ...calm })
    .where('id', '=', any)
    .execute()
}
