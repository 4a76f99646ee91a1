import { sql } from 'kysely'
import { createBatcher } from '../platform/database/batcher.ts'
import type { Database, Transaction } from '../platform/database.ts'

/** The space that an upload needs. */
export interface Wanted {
  /** The bytes without which it cannot go on, those that it holds already included. */
  readonly least: number
  /** The most bytes that it may come to, as far as is known. */
  readonly most: number
}

/** One start of a server, as the owner of rows. */
export interface ServerStart {
  /** Different for each start. */
  readonly id: string
  /** The trace of its process; `null` where there is none. */
  readonly process: string | null
}

/** An upload as the owner of reserved space. */
export interface Uploading {
  readonly id: string
  readonly projectId: string
  readonly quotaBytes: number
}

interface Question extends Uploading, Wanted {
  /** The bytes that it holds; `undefined` when it has no row yet. */
  readonly held: number | undefined
}

export interface Usage {
  /** The bytes of the project's files. */
  readonly stored: number
  /** The bytes that uploads to it have reserved, on all servers. */
  readonly reserved: number
}

/** A lease survives three renewals that are late or fail. */
export const leaseEnd = sql<Date>`now() + interval '60 seconds'`

/** Uploads reserve more than they need at once by this much, so that they ask seldom. */
const spareBytes = 64 * 1024 * 1024
/** The share of the free space that an upload may reserve without needing it: others would be refused because of it. */
const spareShare = 1 / 16

/**
 * Reserves the space of uploads in their rows in `pending_files`, so that uploads on all servers together cannot fill the
 * disk with more than a project may have. Uploads that ask while a transaction runs share the next one.
 *
 * Resolves to the bytes that an upload may now have: less than it needs, and then nothing was reserved. The first call
 * for an upload writes its row. Rejects when another server has taken the row over.
 */
export function createReservations(options: {
  readonly database: Database
  readonly server: ServerStart
}): (upload: Uploading, held: number | undefined, wanted: Wanted) => Promise<number> {
  const { database, server } = options
  const ask = createBatcher((questions: readonly Question[]) =>
    database.transaction().execute((transaction) => reserve(transaction, server, questions)),
  )
  return async (upload, held, wanted) => {
    const granted = await ask({ ...upload, ...wanted, held })
    if (granted === undefined)
      throw new Error('The lease of the upload had expired, and another server removed its bytes.')
    return granted
  }
}

/** Returns what is used of each of these projects, in the order of the ids. */
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
  server: ServerStart,
  questions: readonly Question[],
): Promise<(number | undefined)[]> {
  const projectIds = [...new Set(questions.map(({ projectId }) => projectId))].sort()
  // One statement waits for the locks, the next one sees what their holders have reserved.
  await sql`select pg_advisory_xact_lock(hashtextextended('storage of ' || id, 0))
    from unnest(${projectIds}::text[]) as project (id)`.execute(transaction)
  const usage = await usageOf(transaction, projectIds)
  const used = new Map(projectIds.map((id, at) => [id, (usage[at]?.stored ?? 0) + (usage[at]?.reserved ?? 0)]))
  const answers = questions.map((question) => {
    const before = used.get(question.projectId) ?? 0
    const granted = grant(question, question.quotaBytes - before)
    if (granted >= question.least) used.set(question.projectId, before + granted - (question.held ?? 0))
    return { ...question, granted }
  })
  const given = answers.filter(({ granted, least }) => granted >= least)
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
  return answers.map(({ id, held, granted, least }) =>
    held === undefined || granted < least || grown.has(id) ? granted : undefined,
  )
}

/** Returns the bytes that an upload gets when `free` bytes are not in use; less than `least` when it cannot go on. */
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
  // In the order of the ids, as all statements that change several of these rows.
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
