import { mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { type Selectable, sql } from 'kysely'
import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import { isId } from '../../contract/ids.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import { watchBody } from '../../http/bodies.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { RequestTransactions } from '../../platform/database/request-transactions.ts'
import { type Database, lockByName, type Transaction } from '../../platform/database.ts'
import { describeDiskError } from '../../platform/disk/free-space.ts'
import { syncDirectory } from '../../platform/files.ts'
import { newId } from '../../platform/ids.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { Slots } from '../../platform/slots.ts'
import { type Bundle, BundleError, createBundleReader } from '../../sources/bundle.ts'
import { type DeploymentsTables, tablesOf } from './tables.ts'

export function sourceHandlers(upload: UploadSource): HandlersOf<'sources'> {
  return { 'sources.create': ({ project, request, audit }) => upload({ project, message: request.message, audit }) }
}

interface UploadDependencies {
  readonly database: Database
  readonly transact: RequestTransactions
  /** The slots, by account, in which uploads end: they force bytes to the disk, or remove them. */
  readonly finishing: Slots<string>
  readonly files: SourceFiles
  readonly plans: Plans
  readonly totals: Pick<Totals, 'of'>
  /** Prevents the deletion of the project until the transaction ends; false when the project is no longer active. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
  readonly assertRoom: () => Promise<void>
  /** The most disk space for the files of a commit; a bundle has the same limit. */
  readonly mostSourceBytes: number
  readonly idleTimeoutMs: number
  readonly logger: Logger
}

interface SourceUpload {
  readonly project: TenantProject
  readonly message: IncomingMessage
  readonly audit: (transaction: Transaction, sourceId: string) => Promise<void>
}

type Answer = ResponseBody<'sources.create'>

/**
 * Stores the pack of one git bundle as it arrives. The row reserves the space before the first byte is written. Git
 * reads the pack in the sandbox of its deployment; here only the header is read. Throws `invalid_request` for a body
 * that is not a bundle with exactly one head, and when the project or the account may upload no more.
 */
type UploadSource = (upload: SourceUpload) => Promise<Answer>

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
        // Only the database knows the outcome of a commit without confirmation. While the database is away, the file
        // stays: the leader removes files without rows.
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

/** Adds the row. Returns the ids of older sources that were deleted to make room. */
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

/** Deletes the row of a failed upload. Returns the answer instead when the upload is complete. */
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

interface ReceiveOptions {
  readonly message: IncomingMessage
  readonly mostBytes: number
  readonly idleTimeoutMs: number
  readonly deadlineMs: number
}

/**
 * Writes the pack of a bundle as it arrives. Throws `invalid_request` as soon as the body proves to be no deployable
 * bundle, or too large. The rest of a refused body stays unread.
 */
async function receiveBundle(
  options: ReceiveOptions,
  file: Pick<PackWriter, 'write'>,
): Promise<Bundle & { readonly size: number }> {
  const reader = createBundleReader()
  let size = 0
  try {
    await readBody(options, async (chunk) => {
      size += chunk.length
      if (size > options.mostBytes) throw bundleTooLarge(options.mostBytes)
      await file.write(reader.read(chunk))
    })
    return { ...reader.end(), size }
  } catch (error) {
    throw error instanceof BundleError ? refused(`${error.message}.`) : error
  }
}

const refused = (message: string): ApiError => invalidRequest({ field: 'body', message })

function bundleTooLarge(mostBytes: number): ApiError {
  const message = `is too large: a source may have ${mostBytes} bytes. Leave its history out, as fairlead deploy does.`
  return new ApiError('invalid_request', `body: ${message}`, {
    field: 'body',
    max_bytes: mostBytes,
    errors: [{ field: 'body', message }],
  })
}

/** Passes the body on as it arrives, each part after the previous part was taken. */
async function readBody(
  { message, idleTimeoutMs, deadlineMs }: ReceiveOptions,
  take: (chunk: Buffer) => Promise<void>,
): Promise<void> {
  const outcome = Promise.withResolvers<void>()
  let taken = Promise.resolve()
  const sink = new Writable({
    write(chunk: Buffer, _, done) {
      taken = take(chunk)
      taken.then(() => done(), done)
    },
  })
  sink.on('error', outcome.reject)
  sink.on('finish', outcome.resolve)
  const late = setTimeout(() => outcome.reject(refused('took too long to arrive.')), deadlineMs)
  const stopWatching = watchBody(message, { idleTimeoutMs, fail: (problem) => outcome.reject(refused(`${problem}.`)) })
  message.pipe(sink)
  try {
    await outcome.promise
  } finally {
    clearTimeout(late)
    stopWatching()
    message.unpipe(sink)
    sink.destroy()
    await taken.catch(() => undefined)
  }
}

interface SourceExpiry {
  /** Removes sources that have not been used for a long time, and files without rows. */
  forget(): Promise<void>
  /** Removes the sources of a project that accepts no uploads any more. */
  removeProject(projectId: string): Promise<void>
}

export function createSourceExpiry(dependencies: {
  readonly database: Database
  readonly files: Pick<SourceFiles, 'settled' | 'remove'>
  readonly days: number
}): SourceExpiry {
  const { database, files, days } = dependencies
  return {
    async forget() {
      await deleteExpired(database, days)
      const stored = await files.settled()
      const existing = await existingSources(database, stored)
      for (const id of stored) if (!existing.has(id)) await files.remove(id)
    },
    async removeProject(projectId) {
      const ids = await deleteOfProject(database, projectId)
      for (const id of ids) await files.remove(id)
    },
  }
}

interface UploadedSource {
  readonly commit: string
  readonly branch: string | null
}

/** The longest duration of an upload; its row is removed some time later. */
const longestUploadMs = 3_600_000
const abandoned = sql<boolean>`received_at is null and created_at < now() - interval '2 hours'`

/**
 * True for sources that a deployment may still need: the deployment is building or running, may come back when a newer
 * deployment fails, or is the newest of its app, which can be deployed again with other variables.
 */
const inUse = sql<boolean>`exists (
  select from deployments where source_id = sources.id and (
    status in ('building', 'running') or superseded_by is not null or not exists (
      select from deployments as later
      where later.app_id = deployments.app_id and later.generation > deployments.generation
    )
  )
)`

/** Returns the commit of a source, and keeps the source until the transaction ends. Throws `invalid_request`. */
export async function useSource(transaction: Transaction, projectId: string, id: string): Promise<UploadedSource> {
  const used = isId('source', id)
    ? await tablesOf(transaction)
        .updateTable('sources')
        .set({ used_at: sql<Date>`now()` })
        .where('id', '=', id)
        .where('project_id', '=', projectId)
        .where('received_at', 'is not', null)
        .returning(['commit', 'branch'])
        .executeTakeFirst()
    : undefined
  if (used?.commit == null) {
    throw invalidRequest({ field: 'source_id', message: 'names no source of this project, or one that was removed' })
  }
  return { commit: used.commit, branch: used.branch }
}

/** Returns the number and the size of an account's sources, including uploads under way. */
async function usageOf(transaction: Transaction, accountId: string): Promise<{ count: number; bytes: number }> {
  const { count, bytes } = await tablesOf(transaction)
    .selectFrom('sources')
    .select(({ fn }) => [fn.countAll<string>().as('count'), fn.coalesce(fn.sum<string>('bytes'), sql`0`).as('bytes')])
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return { count: Number(count), bytes: Number(bytes) }
}

/** Deletes the row of the account's least recently used source; returns its id, if there is one. */
async function deleteOldest(transaction: Transaction, accountId: string): Promise<string | undefined> {
  // A source that was just uploaded is about to be deployed.
  const unused = sql<boolean>`received_at is not null and used_at < now() - interval '15 minutes'`
  const oldest = tablesOf(transaction)
    .selectFrom('sources')
    .select('id')
    .where('account_id', '=', accountId)
    .where(unused)
    .where(sql<boolean>`not ${inUse}`)
    .orderBy('used_at')
    .limit(1)
    .forUpdate()
    .skipLocked()
  const deleted = await tablesOf(transaction)
    .deleteFrom('sources')
    .where('id', '=', oldest)
    .where(unused)
    .returning('id')
    .executeTakeFirst()
  return deleted?.id
}

/** Deletes the rows of sources that were unused for so many days, and of interrupted uploads. */
async function deleteExpired(database: Database, days: number): Promise<void> {
  const unused = sql<boolean>`received_at is not null and used_at < now() - make_interval(days => ${days}) and not ${inUse}`
  await tablesOf(database).deleteFrom('sources').where(sql<boolean>`(${unused}) or (${abandoned})`).execute()
}

async function deleteOfProject(database: Database, projectId: string): Promise<string[]> {
  const sources = tablesOf(database).deleteFrom('sources').where('project_id', '=', projectId)
  return (await sources.returning('id').execute()).map(({ id }) => id)
}

async function existingSources(database: Database, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await tablesOf(database)
    .selectFrom('sources')
    .select('id')
    .where('id', '=', sql<string>`any(${[...ids]}::text[])`)
    .execute()
  return new Set(rows.map(({ id }) => id))
}

/** The packs of uploaded sources in one folder. The rows in `sources` decide which packs should exist. */
interface SourceFiles {
  pathOf(id: string): string
  create(id: string): Promise<PackWriter>
  remove(id: string): Promise<void>
  /** Returns the ids of sources that no upload is writing. */
  settled(): Promise<string[]>
}

interface PackWriter {
  write(bytes: Buffer): Promise<void>
  /** Resolves when the file would survive a loss of power. */
  finish(): Promise<void>
  /** Closes the file; `SourceFiles.remove` removes it. */
  abort(): Promise<void>
}

const ending = '.pack'

export function createSourceFiles({ directory }: { readonly directory: string }): SourceFiles {
  const pathOf = (id: string) => join(directory, id + ending)
  return {
    pathOf,
    async create(id) {
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const file = await open(pathOf(id), 'wx', 0o600)
      return {
        write: (bytes) => file.writeFile(bytes),
        async finish() {
          await file.sync()
          await file.close()
          await syncDirectory(directory)
        },
        abort: () => file.close(),
      }
    },
    remove: (id) => rm(pathOf(id), { force: true }),
    async settled() {
      const names = (await readdir(directory).catch(() => [])).filter((name) => name.endsWith(ending))
      const ids = names.map((name) => name.slice(0, -ending.length)).filter((id) => isId('source', id))
      const isSettled = async (id: string) => {
        const written = await stat(pathOf(id)).catch(() => null)
        return written !== null && Date.now() - written.mtimeMs > longestUploadMs
      }
      const settled = await Promise.all(ids.map(isSettled))
      return ids.filter((_, at) => settled[at])
    },
  }
}
