import { createPrivateKey } from 'node:crypto'
import { sql } from 'kysely'
import type { CertificateFailure } from '../../contract/certificates.ts'
import type { Announce } from '../../platform/announce.ts'
import { type Database, databaseNow, type Transaction } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import type { Acme } from './acme/acme.ts'
import { AttemptError, explain } from './acme/errors.ts'
import { announceFailed, announceRenewed } from './announce.ts'
import { endPause, noteOrder, pause } from './history.ts'
import {
  type CertificateFacts,
  certificateBlocks,
  covers,
  factsOf,
  fits,
  isProblem,
  linkProblem,
  newKey,
  readChain,
} from './pem.ts'
import { isIncident, nextAttemptAt, pauseEnd, renewalAt } from './renewal.ts'
import { type CertificateRow, keyContext, orderKeyContext, tablesOf } from './tables.ts'

export interface AttemptDependencies extends OutcomeDependencies {
  readonly acme: Pick<Acme, 'order' | 'revoke'>
}

/**
 * Obtains or renews a certificate, always with a new key, or resumes the order of an earlier attempt. When the signal
 * aborts, everything stays unchanged for the next leader.
 */
export async function obtain(
  dependencies: AttemptDependencies,
  row: CertificateRow,
  isRenewal: boolean,
  signal: AbortSignal,
): Promise<void> {
  const { database, acme } = dependencies
  const { names } = row
  await concluded(dependencies, row, signal, async () => {
    const unfinished = orderOf(dependencies, row)
    const key = unfinished?.key ?? (await newKey())
    const onOrder = async (url: string) => {
      await noteOrder(database, { ...row, isRenewal })
      await storeOrder(dependencies, row, { url, key })
    }
    const chain = await acme.order({ names, key, url: unfinished?.url ?? null, onOrder, signal })
    await endPause(database)
    await succeed(dependencies, row.id, { ...checkIssued(chain, { names, key }, new Date()), key })
  })
}

/** Revokes a certificate at its authority, and deletes its key. */
export async function revoke(
  dependencies: AttemptDependencies,
  row: CertificateRow,
  signal: AbortSignal,
): Promise<void> {
  const { database, acme, logger } = dependencies
  await concluded(dependencies, row, signal, async () => {
    const [certificate] = certificateBlocks(row.chain ?? '')
    const isOver = row.expires_at !== null && row.expires_at <= new Date()
    if (certificate !== undefined && !isOver) await acme.revoke(certificate, signal)
    const done = { revoked_at: new Date(), private_key: null, next_attempt_at: null, is_under_way: false }
    const rest = { order_url: null, order_key: null, attempts: 0, failure: null, alerted_at: null }
    await tablesOf(database)
      .updateTable('certificates')
      .set({ ...done, ...rest })
      .where('id', '=', row.id)
      .execute()
    logger.info({ certificate: row.id, names: row.names, account: row.account_id }, 'a certificate was revoked')
  })
}

/** Runs an attempt, and stores the reason when it fails. Rejects when not even that is possible. */
async function concluded(
  dependencies: AttemptDependencies,
  { id }: CertificateRow,
  signal: AbortSignal,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!signal.aborted) await fail(dependencies, id, explain(error))
  }
}

interface Order {
  readonly url: string
  readonly key: string
}

function orderOf({ secrets }: AttemptDependencies, row: CertificateRow): Order | undefined {
  const { id, order_url: url, order_key: sealed } = row
  return url === null || sealed === null ? undefined : { url, key: secrets.decrypt(sealed, orderKeyContext(id)) }
}

/** Stores an order before any other step, so that a killed server does not create it twice. */
async function storeOrder(
  { database, secrets }: AttemptDependencies,
  { id }: CertificateRow,
  order: Order,
): Promise<void> {
  await tablesOf(database)
    .updateTable('certificates')
    .set({ order_url: order.url, order_key: secrets.encrypt(order.key, orderKeyContext(id)) })
    .where('id', '=', id)
    .execute()
}

interface OutcomeDependencies {
  readonly database: Database
  readonly secrets: SecretBox
  readonly announce: Announce
  readonly logger: Pick<Logger, 'info' | 'warn'>
}

async function succeed(
  { database, secrets, announce, logger }: OutcomeDependencies,
  id: string,
  issued: CertificateFacts & { readonly key: string },
): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    const row = await lock(transaction, id)
    if (row === undefined) return
    // Otherwise the new certificate would be revoked instead of the old one.
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

/** Makes the certificates that this one replaces due for revocation. Returns true when there are any. */
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

/** Stores the failure and the time of the next attempt. Tells the owner when it becomes an incident. */
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

/** Owners of domains and apps must not see details of the operator's machines. */
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

/** The longest wait for a certificate that is not valid yet: the clock may be wrong. */
const longestWaitMs = 60 * 60_000

/**
 * Checks the names, key, chain and times of an issued certificate before it replaces a working one. Throws
 * `AttemptError`.
 *
 * @param key the private key as PEM
 */
function checkIssued(
  chainText: string,
  asked: { readonly names: readonly string[]; readonly key: string },
  now: Date,
): CertificateFacts {
  const chain = readChain(chainText)
  if (isProblem(chain)) throw bad(`it ${chain.message}`)
  const [leaf] = chain
  const link = linkProblem(chain)
  if (link !== null) throw bad(`it ${link.message}`)
  if (!fits(leaf, createPrivateKey(asked.key))) throw bad('it is for another key')
  const facts = factsOf(chain)
  const missing = asked.names.filter((name) => !covers(facts.names, name))
  if (missing.length > 0) throw bad(`it is not for ${missing.join(', ')}`)
  if (facts.expiresAt <= now)
    throw bad(`it has expired at ${facts.expiresAt.toISOString()}, by the clock of this server`)
  if (facts.notBefore > now) throw notYetValid(facts.notBefore, now)
  return facts
}

const bad = (reason: string): AttemptError =>
  new AttemptError(
    'bad_certificate',
    `The certificate authority has issued a certificate that cannot be used: ${reason}.`,
  )

function notYetValid(begins: Date, now: Date): AttemptError {
  const message =
    `The new certificate begins at ${begins.toISOString()}, and the clock of this server says ${now.toISOString()}. ` +
    'Check the clock. The certificate is put in place when it begins.'
  const resumeAt = new Date(Math.min(begins.getTime(), now.getTime() + longestWaitMs))
  return new AttemptError('not_yet_valid', message, { keepsOrder: true, resumeAt })
}
