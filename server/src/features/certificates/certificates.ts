import { sql, type UpdateObject } from 'kysely'
import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import { mayUseProject, type Principal } from '../../http/principal.ts'
import { type AttemptLimit, takeWithin } from '../../platform/attempts.ts'
import { type Database, lockByName, type Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { type CheckedUpload, checkUpload } from './check-upload.ts'
import { isProblem } from './pem.ts'
import { findCertificate, lockCertificate, pageOfCertificates, type ShownRow } from './rows.ts'
import { certificateView, problemsOf } from './status.ts'
import { type CertificateTables, keyContext, tablesOf } from './tables.ts'

export interface CertificateHandlerDependencies {
  readonly database: Database
  readonly secrets: SecretBox
  /**
   * True when the project belongs to the principal's account. The project then cannot be deleted before the transaction
   * ends.
   */
  readonly ownsProject: (transaction: Transaction, principal: Principal, projectId: string) => Promise<boolean>
}

type Certificate = ResponseBody<'certificates.get'>

export function certificateHandlers(dependencies: CertificateHandlerDependencies): HandlersOf<'certificates'> {
  const { database } = dependencies
  return {
    async 'certificates.list'({ principal, page }) {
      const { rows, next } = await pageOfCertificates(database, principal, page)
      const now = new Date()
      return { body: { certificates: rows.map((row) => certificateView(row, now)) }, next }
    },

    'certificates.problems': async ({ project }) => ({ problems: await problemsOf(database, project.id) }),

    'certificates.get': async ({ principal, params }) => view(await findCertificate(database, principal, params.id)),

    async 'certificates.create'({ transaction, principal, body, note }) {
      const id = await upload(dependencies, transaction, principal, body)
      const row = await findCertificate(transaction, principal, id)
      note({ names: row?.names, serial: row?.serial })
      return view(row)
    },

    async 'certificates.renew'({ transaction, principal, params, note }) {
      const row = found(await lockCertificate(transaction, principal, params.id))
      assertAutomatic(row, 'Uploaded certificates are not renewed here: upload the next one.')
      if (row.revocation_requested_at !== null) throw refused('The certificate will be revoked, so it is not renewed.')
      note({ names: row.names })
      if (!row.is_under_way) await assertMayRenew(transaction, row)
      return view(
        await change(transaction, principal, row, { next_attempt_at: row.is_under_way ? row.next_attempt_at : now }),
      )
    },

    async 'certificates.revoke'({ transaction, principal, params, note }) {
      const row = found(await lockCertificate(transaction, principal, params.id))
      assertAutomatic(row, 'An uploaded certificate is revoked by its issuer. Delete it here.')
      if (row.expires_at === null)
        throw refused('The certificate has not been obtained yet, so there is nothing to revoke.')
      note({ names: row.names, serial: row.serial })
      if (row.revocation_requested_at !== null) return view(row)
      await assertMayReplace(transaction, row)
      // The result of a running order is then discarded (`succeed`).
      const requested = { revocation_requested_at: now, attempts: 0, failure: null, alerted_at: null }
      return view(await change(transaction, principal, row, { ...requested, next_attempt_at: now }))
    },

    async 'certificates.delete'({ transaction, principal, params, note }) {
      const row = found(await lockCertificate(transaction, principal, params.id))
      if (row.source !== 'uploaded')
        throw refused('The server obtains this certificate automatically: only uploaded certificates can be deleted.')
      note({ names: row.names, serial: row.serial })
      await tablesOf(transaction).deleteFrom('certificates').where('id', '=', row.id).execute()
      return undefined
    },
  }
}

/** The clock of the database, which the leader also uses to find due certificates. */
const now = sql<Date>`now()`

const refused = (message: string): ApiError => new ApiError('invalid_request', message)

const view = (row: ShownRow | undefined): Certificate => certificateView(found(row), new Date())

function found(row: ShownRow | undefined): ShownRow {
  if (row === undefined) throw notFound()
  return row
}

function assertAutomatic({ source, revoked_at }: ShownRow, message: string): void {
  if (source !== 'automatic') throw refused(message)
  if (revoked_at !== null) throw refused('The certificate is revoked already.')
}

type Changes = UpdateObject<CertificateTables, 'certificates'>

async function change(
  transaction: Transaction,
  principal: Principal,
  { id }: ShownRow,
  changes: Changes,
): Promise<ShownRow | undefined> {
  await tablesOf(transaction).updateTable('certificates').set(changes).where('id', '=', id).execute()
  return findCertificate(transaction, principal, id)
}

async function upload(
  { secrets, ownsProject }: CertificateHandlerDependencies,
  transaction: Transaction,
  principal: Principal,
  { certificate, private_key: privateKey, project_id }: BodyOutput<'certificates.create'>,
): Promise<string> {
  const { accountId } = principal
  const projectId = project_id ?? null
  await assertProject(ownsProject, transaction, principal, projectId)
  const checked = checkUpload({ certificate, privateKey }, new Date())
  if (isProblem(checked)) throw invalidRequest({ field: checked.field, message: checked.message })
  await lockByName(transaction, `certificates of ${accountId}`)
  if ((await countUploads(transaction, accountId)) >= mostUploads) {
    const message = `The account has uploaded ${mostUploads} certificates, as many as it may have. Delete expired certificates.`
    throw new ApiError('invalid_request', message, { max_certificates: mostUploads })
  }
  return insertUpload(transaction, secrets, { accountId, projectId }, checked)
}

async function assertProject(
  ownsProject: CertificateHandlerDependencies['ownsProject'],
  transaction: Transaction,
  principal: Principal,
  projectId: string | null,
): Promise<void> {
  if (projectId === null) {
    if (principal.projectIds === null) return
    throw new ApiError('forbidden', 'This API key is bound to its projects; name one of them as project_id.')
  }
  if (!mayUseProject(principal, projectId)) throw new ApiError('forbidden', 'This API key is bound to other projects.')
  if (!(await ownsProject(transaction, principal, projectId))) {
    throw invalidRequest({ field: 'project_id', message: 'there is no such project' })
  }
}

const hourMs = 60 * 60_000

const renewals: AttemptLimit = { name: 'certificates.renew', most: 5, windowMs: hourMs }
/** Let's Encrypt issues five certificates for the same names in a week. One is reserved for the server. */
const orders: AttemptLimit = { name: 'certificates.order', most: 4, windowMs: 7 * 24 * hourMs }

type Asked = Pick<ShownRow, 'account_id' | 'names' | 'failure' | 'next_attempt_at'>

/**
 * Throws when a certificate was renewed by hand too often. The names are counted, because several rows may have the
 * same names; a transaction that is rolled back does not count. A renewal that is due or has failed needs no additional
 * certificate.
 */
async function assertMayRenew(transaction: Transaction, row: Asked): Promise<void> {
  const retryAfter = await takeWithin(transaction, renewals, keyOf(row))
  if (retryAfter !== undefined) throw tooManyRenewals(retryAfter)
  if (isSettled(row, new Date())) await assertMayReplace(transaction, row)
}

async function assertMayReplace(transaction: Transaction, row: Asked): Promise<void> {
  const retryAfter = await takeWithin(transaction, orders, keyOf(row))
  if (retryAfter !== undefined) throw tooManyOrders(retryAfter)
}

const keyOf = ({ account_id, names }: Asked): string => [account_id, ...names].join(' ')

const isSettled = ({ failure, next_attempt_at: next }: Asked, now: Date): boolean =>
  failure === null && next !== null && next > now

function tooManyRenewals(retryAfter: number): ApiError {
  const message = `The certificate was renewed by hand ${renewals.most} times within an hour. Try again in ${retryAfter} seconds.`
  return new ApiError('invalid_request', message, { most: renewals.most, retry_after: retryAfter })
}

function tooManyOrders(retryAfter: number): ApiError {
  const message =
    `Certificates for these names were renewed or revoked by hand ${orders.most} times within a week, and authorities issue few ` +
    `for the same names. Try again in ${Math.ceil((retryAfter * 1000) / hourMs)} hours.`
  return new ApiError('invalid_request', message, { most: orders.most, retry_after: retryAfter })
}

/** More than any account needs, and few enough to search. */
const mostUploads = 200

export async function insertUpload(
  transaction: Transaction,
  secrets: SecretBox,
  owner: { readonly accountId: string; readonly projectId: string | null },
  checked: CheckedUpload,
): Promise<string> {
  const id = newId('certificate')
  await tablesOf(transaction)
    .insertInto('certificates')
    .values({
      id,
      account_id: owner.accountId,
      project_id: owner.projectId,
      source: 'uploaded',
      names: [...checked.names],
      chain: checked.chain,
      private_key: secrets.encrypt(checked.key, keyContext(id)),
      issuer: checked.issuer,
      serial: checked.serial,
      not_before: checked.notBefore,
      expires_at: checked.expiresAt,
    })
    .execute()
  return id
}

async function countUploads(transaction: Transaction, accountId: string): Promise<number> {
  const { count } = await tablesOf(transaction)
    .selectFrom('certificates')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('account_id', '=', accountId)
    .where('source', '=', 'uploaded')
    .executeTakeFirstOrThrow()
  return Number(count)
}
