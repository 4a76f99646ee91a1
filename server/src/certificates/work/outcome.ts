import { sql } from 'kysely'
import type { CertificateFailure } from '../../contract/resources/hosts/certificates.ts'
import { type Database, databaseNow, type Transaction } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { SecretBox } from '../../platform/secrets/secret-box.ts'
import type { AttemptError } from '../acme/attempt-error.ts'
import type { CertificateFacts } from '../pem/chain.ts'
import { isIncident, nextAttemptAt, pauseEnd, renewalAt } from '../renewal/due.ts'
import { type CertificateRow, keyContext, tablesOf } from '../tables.ts'
import { type Announce, announceFailed, announceRenewed } from './announce.ts'
import { pause } from './history.ts'

export interface OutcomeDependencies {
  readonly database: Database
  readonly secrets: SecretBox
  readonly announce: Announce
  readonly logger: Pick<Logger, 'info' | 'warn'>
}

/** Puts a new certificate in place, in one step with everything that follows from it. Does nothing for one that is gone. */
export async function succeed(
  { database, secrets, announce, logger }: OutcomeDependencies,
  id: string,
  issued: CertificateFacts & { readonly key: string },
): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    const row = await lock(transaction, id)
    if (row === undefined) return
    // Otherwise the new one would be revoked in place of the one that is meant.
    if (row.revocation_requested_at !== null) return giveUp(transaction, id)
    await tablesOf(transaction)
      .updateTable('certificates')
      .set({
        chain: issued.chain,
        private_key: secrets.encrypt(issued.key, keyContext(id)),
        issuer: issued.issuer,
        serial: issued.serial,
        not_before: issued.notBefore,
        expires_at: issued.expiresAt,
        next_attempt_at: renewalAt(issued, issued.serial),
        ...settled,
      })
      .where('id', '=', id)
      .execute()
    const replaced = await wakeReplaced(transaction, row)
    if (row.chain !== null || replaced) await announceRenewed(announce, transaction, row, issued.expiresAt)
    const { names, account_id: account } = row
    logger.info({ certificate: id, names, account, expiresAt: issued.expiresAt }, 'a certificate was obtained')
  })
}

const settled = {
  attempts: 0,
  failure: null,
  is_under_way: false,
  order_url: null,
  order_key: null,
  alerted_at: null,
} as const

async function giveUp(transaction: Transaction, id: string): Promise<void> {
  await tablesOf(transaction)
    .updateTable('certificates')
    .set({ ...settled, next_attempt_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute()
}

/** Lets the certificates be revoked now that this one was to replace. Returns true when there are any. */
async function wakeReplaced(transaction: Transaction, row: CertificateRow): Promise<boolean> {
  const { numUpdatedRows } = await tablesOf(transaction)
    .updateTable('certificates')
    .set({ next_attempt_at: sql<Date>`now()` })
    .where('account_id', '=', row.account_id)
    .where('names', '=', sql<string[]>`${row.names}::text[]`)
    .where('id', '<>', row.id)
    .where('revocation_requested_at', 'is not', null)
    .where('revoked_at', 'is', null)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

/** Notes why an attempt has failed and when the next one is made; tells the owner when it becomes an incident. */
export async function fail(dependencies: OutcomeDependencies, id: string, error: AttemptError): Promise<void> {
  const { database, announce, logger } = dependencies
  const { facts } = error
  await database.transaction().execute(async (transaction) => {
    const row = await lock(transaction, id)
    if (row === undefined) return
    const now = await databaseNow(transaction)
    const attempts = row.attempts + 1
    const failure = failureFor(row, error)
    const retryAfterMs = facts.retryAfterMs ?? 0
    const next = nextAttemptAt(attempts, retryAfterMs, now, Math.random())
    const isNews = row.alerted_at === null && isIncident(attempts, lifetimeOf(row), now)
    await tablesOf(transaction)
      .updateTable('certificates')
      .set({
        attempts,
        failure: JSON.stringify(failure),
        next_attempt_at: facts.resumeAt ?? next,
        is_under_way: false,
        ...(facts.keepsOrder !== true && { order_url: null, order_key: null }),
        ...(isNews && { alerted_at: now }),
      })
      .where('id', '=', id)
      .execute()
    if (isNews) await announceFailed(announce, transaction, row, { attempts, failure, expiresAt: row.expires_at })
    if (facts.pauses === undefined) return
    await pause(transaction, facts.pauses, row, {
      until: pauseEnd(retryAfterMs, next, now),
      failure: toOthers(error),
    })
  })
  const { code, message } = error.failure
  logger.warn({ certificate: id, code, reason: message, err: error.cause }, 'no certificate yet')
}

/** Owners of domains and apps do not read of the operator's machines. */
const failureFor = ({ app_id }: CertificateRow, error: AttemptError): CertificateFailure =>
  app_id === null ? error.failure : toOthers(error)

const toOthers = ({ failure, facts }: AttemptError): CertificateFailure => ({
  ...failure,
  message: facts.toTenants ?? failure.message,
})

function lifetimeOf({ not_before: notBefore, expires_at: expiresAt }: CertificateRow) {
  return notBefore === null || expiresAt === null ? null : { notBefore, expiresAt }
}

const lock = (transaction: Transaction, id: string): Promise<CertificateRow | undefined> =>
  tablesOf(transaction).selectFrom('certificates').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
