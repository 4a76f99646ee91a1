import type { IncomingMessage } from 'node:http'
import type { Selectable } from 'kysely'
import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { RequestTransactions } from '../../platform/database/request-transactions.ts'
import { type Database, lockByName, type Transaction } from '../../platform/database.ts'
import { describeDiskError } from '../../platform/disk/free-space.ts'
import { newId } from '../../platform/ids.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { Slots } from '../../platform/slots.ts'
import { type DeploymentsTables, tablesOf } from '../tables.ts'
import type { SourceFiles } from './files.ts'
import { bundleTooLarge, receiveBundle } from './receive.ts'
import { deleteOldest, longestUploadMs, usageOf } from './rows.ts'

export interface UploadDependencies {
  readonly database: Database
  readonly transact: RequestTransactions
  /** The slots, by account, in which uploads end: they force bytes to the disk, or remove them. */
  readonly finishing: Slots<string>
  readonly files: SourceFiles
  readonly plans: Plans
  readonly totals: Pick<Totals, 'of'>
  /** Keeps the project from being deleted until the transaction ends; false when it is not active any more. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
  /** Throws `server_error` when the disk is nearly full. */
  readonly assertRoom: () => Promise<void>
  /** The most disk space for the files of a commit, which counts for a bundle, too. */
  readonly mostSourceBytes: number
  /** The longest pause of an upload, in milliseconds. */
  readonly idleTimeoutMs: number
  readonly logger: Logger
}

export interface SourceUpload {
  readonly project: TenantProject
  readonly message: IncomingMessage
  /** Records in the audit log that the source of this id was created. */
  readonly audit: (transaction: Transaction, sourceId: string) => Promise<void>
}

type Answer = ResponseBody<'sources.create'>

/**
 * Stores the pack of one git bundle, as it arrives. Its row reserves the space before the first byte is written. Git reads
 * the pack when it is deployed, in its sandbox; here its header alone is read. Throws `invalid_request` on a body that is
 * no bundle with exactly one head, and when the project or the account may upload no more.
 */
export type UploadSource = (upload: SourceUpload) => Promise<Answer>

export function createUploadSource(dependencies: UploadDependencies): UploadSource {
  const { database, finishing, files, plans, logger } = dependencies
  return async (upload) => {
    const { message, project } = upload
    checkHeaders(message)
    const mostBytes = Math.min(planNamed(plans, project.plan).file_mb * 1e6, dependencies.mostSourceBytes)
    const length = Number(message.headers['content-length'] ?? mostBytes)
    if (length > mostBytes) throw bundleTooLarge(mostBytes)
    await dependencies.assertRoom()
    const id = newId('source')
    try {
      const removed = await reserve(dependencies, { id, project, bytes: length })
      for (const old of removed) await files.remove(old)
      return await receive(dependencies, upload, { id, mostBytes: length })
    } catch (error) {
      const stored = await finishing.use(project.accountId, undefined, async () => {
        // Only the database can tell what became of a commit whose confirmation was lost. While it is away, the file stays: the leader
        // removes files without rows.
        const found = await giveUp(database, id)
        if (found === undefined) await files.remove(id)
        return found
      })
      if (stored !== undefined) return stored
      const described = describeDiskError(error)
      if (described !== error) logger.error({ err: error }, 'the disk for sources is full')
      throw described
    }
  }
}

function checkHeaders({ headers }: IncomingMessage): void {
  if (!/^application\/x-git-bundle *(;|$)/i.test(headers['content-type'] ?? '')) {
    throw invalidRequest({ field: 'content-type', message: 'must be application/x-git-bundle' })
  }
  if (!/^(identity)?$/i.test(headers['content-encoding'] ?? '')) {
    throw invalidRequest({ field: 'content-encoding', message: 'must not be set: a bundle is compressed already' })
  }
}

/** Adds the row. Returns the ids of older sources that made room for it. */
function reserve(
  { transact, totals, holdProject }: UploadDependencies,
  { id, project, bytes }: { readonly id: string; readonly project: TenantProject; readonly bytes: number },
): Promise<string[]> {
  const { accountId } = project
  return transact(accountId, async (transaction) => {
    if (!(await holdProject(transaction, project.id))) throw notFound()
    const { sources: most, sources_gb: mostGb } = await totals.of(transaction, accountId)
    await lockByName(transaction, `sources of ${accountId}`)
    const removed: string[] = []
    for (;;) {
      const usage = await usageOf(transaction, accountId)
      const exceeded = usage.count >= most ? 'sources' : usage.bytes + bytes > mostGb * 1e9 ? 'sources_gb' : null
      if (exceeded === null) break
      const old = await deleteOldest(transaction, accountId)
      if (old === undefined) throw tooMany(exceeded, exceeded === 'sources' ? most : mostGb)
      removed.push(old)
    }
    const row = { id, project_id: project.id, account_id: accountId, bytes }
    await tablesOf(transaction).insertInto('sources').values(row).execute()
    return removed
  })
}

/** Deletes the row of an upload that failed. Returns the answer instead when the upload is complete. */
async function giveUp(database: Database, id: string): Promise<Answer | undefined> {
  const row = tablesOf(database)
  await row.deleteFrom('sources').where('id', '=', id).where('received_at', 'is', null).execute()
  const stored = await row.selectFrom('sources').selectAll().where('id', '=', id).executeTakeFirst()
  return stored && answerOf(stored)
}

const answerOf = ({ id, created_at, bytes, commit, branch }: Selectable<DeploymentsTables['sources']>): Answer => ({
  id,
  created_at: created_at.toISOString(),
  size: Number(bytes),
  commit: commit ?? '',
  branch,
})

function tooMany(limit: 'sources' | 'sources_gb', most: number): ApiError {
  const all = limit === 'sources' ? `${most} uploaded sources` : `uploaded sources of ${most} GB`
  return new ApiError(
    'invalid_request',
    `The account has ${all} that are new or in use, as many as it may have. Try again in 15 minutes, or delete ` +
      'deployments that are not needed any more.',
    { limit, most },
  )
}

async function receive(
  { transact, finishing, files, holdProject, idleTimeoutMs }: UploadDependencies,
  { project, message, audit }: SourceUpload,
  { id, mostBytes }: { readonly id: string; readonly mostBytes: number },
): Promise<Answer> {
  const file = await files.create(id)
  const options = { message, mostBytes, idleTimeoutMs, deadlineMs: longestUploadMs }
  const { size, commit, branch } = await receiveBundle(options, file).catch(async (error: unknown) => {
    await file.abort()
    throw error
  })
  await finishing.use(project.accountId, undefined, () => file.finish())
  return transact(project.accountId, async (transaction) => {
    if (!(await holdProject(transaction, project.id))) throw notFound()
    const { created_at } = await tablesOf(transaction)
      .updateTable('sources')
      .set(({ fn }) => ({ bytes: size, commit, branch, received_at: fn('now'), used_at: fn('now') }))
      .where('id', '=', id)
      .returning('created_at')
      .executeTakeFirstOrThrow()
    await audit(transaction, id)
    return { id, created_at: created_at.toISOString(), size, commit, branch }
  })
}
