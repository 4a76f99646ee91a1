import { databaseNow, fromNow } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { createMarks, type Held } from '../../platform/marks.ts'
import { type Repeated, startRepeated } from '../../platform/periodic.ts'
import { nextAttemptAt } from '../renewal/due.ts'
import type { AuthorityLimits } from '../renewal/limits.ts'
import { among, insertAutomatic, isReplacement, servedNameOf } from '../rows.ts'
import type { ServedName } from '../serving/selection.ts'
import type { CertificateRow } from '../tables.ts'
import { type AttemptDependencies, obtain, revoke } from './attempt.ts'
import {
  claim,
  dueCertificates,
  markedCertificates,
  postpone,
  releaseLeft,
  releaseNotStored,
  rest,
  untilNextDue,
} from './due.ts'
import { currentPauses, limitReached, type Pause } from './history.ts'

export interface WorkerDependencies extends AttemptDependencies {
  /** Returns the names that get certificates from the authority: the server's own, those of domains, and those of these apps. */
  readonly servedNames: (appIds: readonly string[]) => Promise<readonly ServedName[]>
  /** True while the gateway shows a certificate for any name. */
  readonly isShown: (certificateId: string) => boolean
  readonly limits: AuthorityLimits
  /** The operator's account. */
  readonly operatorId: string
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>
}

/** The longest time between two looks, in case that a notification was missed. */
const lookMs = 30_000
/** The shortest time between two looks. */
const shortestMs = 50
/** The most orders under way at once: others use the authority, too. */
const atOnce = 4
/** The certificates that one look decides about. */
const mostAtOnce = 100
/** The time between two looks whether another certificate is shown in place of one that is to be revoked. */
const replacementMs = 2_000
/** After a pause, certificates are tried one after the other within this time. */
const afterPauseMs = 10_000
/** The time until a limit is looked at again. */
const limitMs = 30 * 60_000
/** The wait after an attempt whose end could not be stored. The first look takes up at once what an earlier leader has left. */
const notStoredMs = 60_000

type Work = 'obtain' | 'renew' | 'revoke'

/** Obtains, renews and revokes certificates when it is time, in the leader. */
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
    const due = await dueCertificates(database, [...underWay.keys()], mostAtOnce)
    const decide = await createDecision(dependencies, due)
    for (const row of due) {
      if (underWay.size >= atOnce || stopping.signal.aborted) break
      const how = await decide(row)
      if (how !== null) begin(row, how)
    }
    // The end of one that is under way is another reason to look.
    if (underWay.size >= atOnce) return lookMs
    return Math.min(Math.max((await untilNextDue(database, [...underWay.keys()])) ?? lookMs, shortestMs), lookMs)
  }

  const repeated = startRepeated(look, (error) => {
    logger.error({ err: error }, 'certificates that are due cannot be looked for')
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
    dependencies.logger.error({ err: error, certificate: row.id }, 'an attempt could not be concluded')
  }
}

/** Returns a function that decides about a due certificate. One that must wait is put off, and the function returns null. */
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
    // An order that is there already counts once.
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
