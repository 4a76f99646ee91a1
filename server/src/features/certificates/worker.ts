import { type RawBuilder, sql, type UpdateObject } from 'kysely'
import type { CertificateFailure } from '../../contract/certificates.ts'
import type { EdgeGateway } from '../../gateway/edge-client.ts'
import { type Database, databaseNow, fromNow } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { createMarks, type Held } from '../../platform/marks.ts'
import { type Repeated, startRepeated } from '../../platform/periodic.ts'
import { type AttemptDependencies, obtain, revoke } from './attempt.ts'
import { currentPauses, limitReached, type Pause } from './history.ts'
import { type AuthorityLimits, nextAttemptAt } from './renewal.ts'
import { among, automaticCertificates, insertAutomatic, isReplacement, servedNameOf } from './rows.ts'
import { hasWildcard, type ServedName } from './selection.ts'
import { createLook, type LookDependencies, obtainableNames, startCertificateSync, wildcardState } from './serving.ts'
import { type CertificateRow, type CertificateTables, keyContext, tablesOf } from './tables.ts'

export interface CertificateWorkDependencies
  extends LookDependencies,
    Omit<WorkerDependencies, 'servedNames' | 'isShown' | 'operatorId'> {
  readonly gateway: Pick<EdgeGateway, 'certify' | 'certificates'>
}

export interface CertificateWork {
  /** Requests the certificate of a name that is visited, unless it exists or is already requested. */
  obtain(name: ServedName): Promise<void>
  wake(): void
  stop(): Promise<void>
}

/** Resolves when the gateway has the existing certificates, or could not be reached. */
export async function startCertificateWork(dependencies: CertificateWorkDependencies): Promise<CertificateWork> {
  const { database, secrets, gateway, own, logger } = dependencies
  const sync = await startCertificateSync({
    look: createLook(dependencies),
    async read(id) {
      const row = await tablesOf(database)
        .selectFrom('certificates')
        .select(['chain', 'private_key'])
        .where('id', '=', id)
        .executeTakeFirst()
      if (row?.chain == null || row.private_key === null) return undefined
      return secrets.decrypt(row.private_key, keyContext(id)) + row.chain
    },
    certify: gateway.certify,
    before: gateway.certificates(),
    logger,
  })
  const worker = startWorker({
    ...dependencies,
    servedNames: (appIds) => obtainableNames(dependencies, appIds),
    isShown: sync.isShown,
  })
  return {
    async obtain(name) {
      const wildcard = wildcardState(await automaticCertificates(database), own, new Date())
      if (name.domainId !== null || !hasWildcard(name.name, own, wildcard)) await insertAutomatic(database, name)
    },
    wake() {
      sync.wake()
      worker.wake()
    },
    async stop() {
      await worker.stop()
      await sync.stop()
    },
  }
}

interface WorkerDependencies extends AttemptDependencies {
  /** Returns the names that get certificates from the authority: of the server, of domains, and of these apps. */
  readonly servedNames: (appIds: readonly string[]) => Promise<readonly ServedName[]>
  readonly isShown: (certificateId: string) => boolean
  readonly limits: AuthorityLimits
  readonly operatorId: string
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>
}

/** The longest time between two checks, in case a notification was missed. */
const lookMs = 30_000
const shortestMs = 50
/** Few, because other servers use the authority, too. */
const mostOrders = 4
const mostPerCheck = 100
/** The time until the next check of whether another certificate is shown instead of a certificate to be revoked. */
const replacementMs = 2_000
/** After a pause, attempts are spread over this time. */
const afterPauseMs = 10_000
/** The time until a limit is checked again. */
const limitMs = 30 * 60_000
/** The wait after an attempt whose result could not be stored, unless an earlier leader made the attempt. */
const notStoredMs = 60_000

type Work = 'obtain' | 'renew' | 'revoke'

export function startWorker(dependencies: WorkerDependencies): Repeated {
  const { database, logger } = dependencies
  const stopping = new AbortController()
  const underWay = new Map<string, Promise<void>>()
  let isFirst = true
  const marks = createMarks({
    marked: () => markedCertificates(database),
    release: (ids) => (isFirst ? releaseLeft(database, ids) : releaseNotStored(database, ids, notStoredMs)),
  })

  const begin = (row: CertificateRow, how: Work): void => {
    const ended = marks
      .during(row.id, (held) => attempt(dependencies, held, row, how, stopping.signal))
      .finally(() => {
        underWay.delete(row.id)
        repeated.wake()
      })
    underWay.set(row.id, ended)
  }

  const look = async (): Promise<number> => {
    await marks.sweep()
    isFirst = false
    const due = await dueCertificates(database, [...underWay.keys()], mostPerCheck)
    const decide = await createDecision(dependencies, due)
    for (const row of due) {
      if (underWay.size >= mostOrders || stopping.signal.aborted) break
      const how = await decide(row)
      if (how !== null) begin(row, how)
    }
    // The end of an attempt also triggers a check.
    if (underWay.size >= mostOrders) return lookMs
    return Math.min(Math.max((await untilNextDue(database, [...underWay.keys()])) ?? lookMs, shortestMs), lookMs)
  }

  const repeated = startRepeated(look, (error) => {
    logger.error({ err: error }, 'due certificates cannot be read')
    return lookMs
  })
  return {
    wake: repeated.wake,
    async stop() {
      stopping.abort(new Error('the server is stopping'))
      await repeated.stop()
      await Promise.all(underWay.values())
    },
  }
}

/** Never rejects. */
async function attempt(
  dependencies: WorkerDependencies,
  held: Held,
  row: CertificateRow,
  how: Work,
  signal: AbortSignal,
): Promise<void> {
  try {
    const now = await databaseNow(dependencies.database)
    const ifFailed = nextAttemptAt(row.attempts + 1, 0, now, Math.random())
    if (!(await claim(dependencies.database, held, now, ifFailed))) return
    if (how === 'revoke') await revoke(dependencies, row, signal)
    else await obtain(dependencies, row, how === 'renew', signal)
  } catch (error) {
    if (signal.aborted) return
    dependencies.logger.error(
      { err: error, certificate: row.id },
      'a certificate attempt ended with an unexpected error',
    )
  }
}

/** Returns a function that decides what to do with a due certificate. It returns null for a postponed certificate. */
async function createDecision(
  dependencies: WorkerDependencies,
  due: readonly CertificateRow[],
): Promise<(row: CertificateRow) => Promise<Work | null>> {
  if (due.length === 0) return async () => null
  const { database, limits, operatorId, isShown } = dependencies
  const isServedName = among(await dependencies.servedNames(due.flatMap(({ app_id: appId }) => appId ?? [])))
  const pauses = await currentPauses(database)
  return async (row) => {
    const isServed = isServedName(servedNameOf(row))
    if (row.revocation_requested_at !== null) {
      if (!isServed || !isShown(row.id)) return pauses.all === undefined ? 'revoke' : putOff(row, pauses.all)
      await insertAutomatic(database, servedNameOf(row))
      await postpone(database, [row.id], fromNow(replacementMs), null)
      return null
    }
    if (!isServed) {
      await rest(database, [row.id])
      return null
    }
    const pause = pauses.ofOrder(row)
    if (pause !== undefined) return putOff(row, pause)
    const isRenewal = row.chain !== null || (await isReplacement(database, row))
    // An existing order has been counted already.
    const limit =
      row.order_url === null ? await limitReached(database, limits, { ...row, isRenewal }, operatorId) : null
    if (limit === null) return isRenewal ? 'renew' : 'obtain'
    await postpone(database, [row.id], fromNow(limitMs), limit)
    return null
  }

  async function putOff({ id }: CertificateRow, { until, failure }: Pause): Promise<null> {
    await postpone(database, [id], new Date(until.getTime() + Math.random() * afterPauseMs), failure)
    return null
  }
}

/** The longest wait for an attempt. A later time was stored while the clock was wrong. */
const longestWait = sql`interval '2000 days'`

/**
 * Returns the due certificates. The server's certificates come first; then the accounts take turns, regardless of the
 * number of their due certificates.
 */
function dueCertificates(database: Database, without: readonly string[], limit: number): Promise<CertificateRow[]> {
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

/**
 * Returns the milliseconds until the next certificate outside `without` is due; null when there is no such certificate.
 */
async function untilNextDue(database: Database, without: readonly string[]): Promise<number | null> {
  const { wait } = await tablesOf(database)
    .selectFrom('certificates')
    .select(sql<number | null>`extract(epoch from min(next_attempt_at) - now())::float8`.as('wait'))
    .where('id', '<>', sql<string>`all(${[...without]}::text[])`)
    .executeTakeFirstOrThrow()
  return wait === null ? null : Math.max(0, wait * 1000)
}

/**
 * Marks the start of an attempt. Returns false when the certificate is no longer due, or is gone.
 *
 * @param ifFailed the time of the next attempt, unless the end of this attempt or a release sets another time
 */
async function claim(database: Database, { id }: Held, now: Date, ifFailed: Date): Promise<boolean> {
  const { numUpdatedRows } = await tablesOf(database)
    .updateTable('certificates')
    .set({ is_under_way: true, attempted_at: now, next_attempt_at: ifFailed })
    .where('id', '=', id)
    .where('is_under_way', '=', false)
    .where(sql<boolean>`(next_attempt_at <= now() or next_attempt_at > now() + ${longestWait})`)
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

async function markedCertificates(database: Database): Promise<string[]> {
  const rows = await tablesOf(database)
    .selectFrom('certificates')
    .select('id')
    .where('is_under_way', '=', true)
    .execute()
  return rows.map(({ id }) => id)
}

/** Makes the unfinished attempts of an earlier leader due. Attempts with an order resume it. */
const releaseLeft = (database: Database, ids: readonly string[]): Promise<void> =>
  release(database, ids, { next_attempt_at: fromNow(0) })

/** Attempts whose result was not stored count as failed, so that their owners are told in time. */
const releaseNotStored = (database: Database, ids: readonly string[], waitMs: number): Promise<void> =>
  release(database, ids, {
    next_attempt_at: fromNow(waitMs),
    attempts: sql<number>`attempts + 1`,
    failure: JSON.stringify(notStored),
  })

const notStored: CertificateFailure = {
  code: 'server_error',
  message:
    'The server could not store how the last attempt ended, for example because its database was not available. It tries again automatically.',
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

/** Postpones an attempt without counting it as failed. */
async function postpone(
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
const idleColumns = { attempts: 0, failure: null, alerted_at: null, order_url: null, order_key: null } as const

/**
 * Rests certificates that are not needed, because their names are not served here or have another certificate. They are
 * not renewed, and are deleted when they have expired or were never obtained. They become active when they are needed
 * again.
 */
async function rest(database: Database, ids: readonly string[]): Promise<void> {
  const any = sql<string>`any(${[...ids]}::text[])`
  await tablesOf(database)
    .deleteFrom('certificates')
    .where('id', '=', any)
    .where(({ or, eb }) => or([eb('chain', 'is', null), eb('expires_at', '<=', sql<Date>`now()`)]))
    .execute()
  await tablesOf(database)
    .updateTable('certificates')
    .set({ next_attempt_at: sql<Date>`now() + make_interval(hours => ${restHours})`, ...idleColumns })
    .where('id', '=', any)
    .execute()
}
