import { sql } from 'kysely'
import { ApiError } from '../../contract/errors.ts'
import { createBatcher } from '../../platform/database/batcher.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'

export interface Wanted {
  /** The bytes that the upload needs to continue, including the bytes that it holds already. */
  readonly least: number
  /** The known upper bound of its size in bytes. */
  readonly most: number
}

export interface ServerStart {
  readonly id: string
  /** The trace of its process; `null` when there is none. */
  readonly process: string | null
}

export interface Uploading {
  readonly id: string
  readonly projectId: string
  readonly quotaBytes: number
  readonly accountId: string
}

export interface AccountSpace {
  readonly projectIds: readonly string[]
  readonly quotaBytes: number
  readonly uploads: number
}

interface Question extends Uploading, Wanted {
  /** The bytes that the upload holds; `undefined` when it has no row yet. */
  readonly held: number | undefined
}

export interface Usage {
  readonly stored: number
  /** The bytes that uploads to the project have reserved, on all servers. */
  readonly reserved: number
}

/** A lease survives three late or failed renewals. */
export const leaseEnd = sql<Date>`now() + interval '60 seconds'`

/** Uploads reserve this much more than they need at once, so that they rarely have to ask. */
const spareBytes = 64 * 1024 * 1024
/**
 * The share of the free space that an upload may reserve in advance. A larger reservation could block other uploads.
 */
const spareShare = 1 / 16

/**
 * Reserves the space of uploads in their rows in `pending_files`, so that uploads on all servers together cannot store
 * more than a project may have. Uploads that ask while a transaction runs share the next transaction.
 *
 * Resolves to the bytes that an upload may now have; less than it needs means that nothing was reserved. The first call
 * for an upload writes its row. Rejects when another server has taken over the row.
 */
export function createReservations(options: {
  readonly database: Database
  readonly server: ServerStart
  readonly spaceOf: (transaction: Transaction, accountId: string) => Promise<AccountSpace>
}): (upload: Uploading, held: number | undefined, wanted: Wanted) => Promise<number> {
  const { database, server, spaceOf } = options
  const ask = createBatcher((questions: readonly Question[]) =>
    database.transaction().execute((transaction) => reserve(transaction, { server, spaceOf }, questions)),
  )
  return async (upload, held, wanted) => {
    const granted = await ask({ ...upload, ...wanted, held })
    if (granted instanceof ApiError) throw granted
    if (granted === undefined)
      throw new Error('The lease of the upload had expired, and another server removed its bytes.')
    return granted
  }
}

/** Returns the usage of each project, in the order of the ids. */
export async function usageOf(database: Database | Transaction, projectIds: readonly string[]): Promise<Usage[]> {
  const { rows } = await sql<{ stored: string; reserved: string }>`
    select
      coalesce((select bytes from storage_usage where project_id = project.id), 0) as stored,
      coalesce((select sum(bytes) from pending_files where project_id = project.id), 0) as reserved
    from unnest(${projectIds}::text[]) with ordinality as project (id, position)
    order by position`.execute(database)
  return rows.map(({ stored, reserved }) => ({ stored: Number(stored), reserved: Number(reserved) }))
}

async function reserve(
  transaction: Transaction,
  { server, spaceOf }: Pick<Parameters<typeof createReservations>[0], 'server' | 'spaceOf'>,
  questions: readonly Question[],
): Promise<(number | ApiError | undefined)[]> {
  const accountIds = [...new Set(questions.map(({ accountId }) => accountId))].sort()
  // The first statement waits for the locks; the next one then sees what the earlier holders have reserved.
  await sql`select pg_advisory_xact_lock(hashtextextended('storage of ' || id, 0))
    from unnest(${accountIds}::text[]) as account (id)`.execute(transaction)
  const accounts = new Map<string, AccountUsage>()
  for (const id of accountIds) accounts.set(id, await accountUsage(transaction, await spaceOf(transaction, id)))
  const answers = questions.map((question) => {
    const account = accounts.get(question.accountId)
    const granted = account === undefined ? 0 : decide(question, account)
    return { ...question, granted: granted ?? 0, isRefused: granted === null }
  })
  const given = answers.filter(({ granted, least, isRefused }) => !isRefused && granted >= least)
  await insertRows(
    transaction,
    server,
    given.filter(({ held }) => held === undefined),
  )
  const grown = await growRows(
    transaction,
    server,
    given.filter(({ held }) => held !== undefined),
  )
  return answers.map(({ id, accountId, held, granted, least, isRefused }) => {
    if (isRefused) return tooManyUploads(accounts.get(accountId)?.space.uploads ?? 0)
    return held === undefined || granted < least || grown.has(id) ? granted : undefined
  })
}

interface AccountUsage {
  readonly space: AccountSpace
  readonly used: Map<string, number>
  total: number
  uploads: number
}

async function accountUsage(transaction: Transaction, space: AccountSpace): Promise<AccountUsage> {
  const usage = await usageOf(transaction, space.projectIds)
  const bytes = usage.map(({ stored, reserved }) => stored + reserved)
  const { rows } = await sql<{ uploads: number }>`select count(*)::int as uploads from pending_files
    where project_id = any(${space.projectIds}::text[])`.execute(transaction)
  return {
    space,
    used: new Map(space.projectIds.map((id, at) => [id, bytes[at] ?? 0])),
    total: bytes.reduce((sum, each) => sum + each, 0),
    uploads: rows[0]?.uploads ?? 0,
  }
}

/** Returns the bytes that an upload gets, and counts them; `null` when the account has too many uploads. */
function decide(question: Question, account: AccountUsage): number | null {
  const { held = 0, projectId, quotaBytes, least } = question
  if (question.held === undefined && account.uploads >= account.space.uploads) return null
  const before = account.used.get(projectId) ?? 0
  const granted = grant(question, Math.min(quotaBytes - before, account.space.quotaBytes - account.total))
  if (granted < least) return granted
  account.used.set(projectId, before + granted - held)
  account.total += granted - held
  if (question.held === undefined) account.uploads += 1
  return granted
}

/** Returns the bytes that an upload gets when `free` bytes are available; less than `least` when it cannot continue. */
function grant({ held = 0, least, most }: Pick<Question, 'held' | 'least' | 'most'>, free: number): number {
  const rest = free - (least - held)
  if (rest < 0) return Math.max(0, held + free)
  return least + Math.max(0, Math.floor(Math.min(most - least, spareBytes, rest * spareShare)))
}

type Granted = Question & { readonly granted: number }

async function insertRows(transaction: Transaction, server: ServerStart, uploads: readonly Granted[]): Promise<void> {
  if (uploads.length === 0) return
  await sql`insert into pending_files (file_id, project_id, bytes, server_id, process, lease_until)
    select file_id, project_id, bytes, ${server.id}, ${server.process}, ${leaseEnd}
    from unnest(
      ${uploads.map(({ id }) => id)}::text[],
      ${uploads.map(({ projectId }) => projectId)}::text[],
      ${uploads.map(({ granted }) => granted)}::bigint[]
    ) as upload (file_id, project_id, bytes)`.execute(transaction)
}

/** Returns the ids of the files whose rows still belong to the server. */
async function growRows(
  transaction: Transaction,
  server: ServerStart,
  uploads: readonly Granted[],
): Promise<ReadonlySet<string>> {
  if (uploads.length === 0) return new Set()
  // In the order of the ids, like all statements that change several of these rows.
  const sorted = [...uploads].sort((a, b) => (a.id < b.id ? -1 : 1))
  const ids = sorted.map(({ id }) => id)
  await sql`select from pending_files where file_id = any(${ids}::text[]) order by file_id for update`.execute(
    transaction,
  )
  const { rows } = await sql<{ file_id: string }>`update pending_files set bytes = upload.bytes
    from unnest(${ids}::text[], ${sorted.map(({ granted }) => granted)}::bigint[]) as upload (file_id, bytes)
    where pending_files.file_id = upload.file_id and server_id = ${server.id}
    returning pending_files.file_id`.execute(transaction)
  return new Set(rows.map(({ file_id }) => file_id))
}

export interface Limits {
  readonly fileBytes: number
  readonly quotaBytes: number
}

export function limitsOf(plans: Plans, plan: string): Limits {
  const { file_mb, storage_gb } = planNamed(plans, plan)
  return { fileBytes: file_mb * 1e6, quotaBytes: storage_gb * 1e9 }
}

/**
 * Returns the error for a file that is too large: `invalid_request`, with the largest possible size at present in
 * `details.max_bytes`.
 */
export function tooLarge(maxBytes: number): ApiError {
  const most = Math.max(0, Math.floor(maxBytes))
  const message = `is too large: the plan of the project and the limits of the account leave room for ${most} bytes`
  return new ApiError('invalid_request', `file: ${message}`, {
    field: 'file',
    max_bytes: most,
    errors: [{ field: 'file', message }],
  })
}

function tooManyUploads(most: number): ApiError {
  return new ApiError(
    'invalid_request',
    `The account has ${most} uploads under way, as many as it may have at once. Wait until one has ended.`,
    { limit: 'uploads', most },
  )
}
