import { sql } from 'kysely'
import { invalidRequest } from '../../contract/errors.ts'
import { isId } from '../../contract/ids.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { tablesOf } from '../tables.ts'

/** The commit of an uploaded source. */
export interface UploadedSource {
  readonly commit: string
  readonly branch: string | null
}

/** The longest that an upload may take; its row is removed some time after that. */
export const longestUploadMs = 3_600_000
const abandoned = sql<boolean>`received_at is null and created_at < now() - interval '2 hours'`

/**
 * True for sources that a deployment may still need: it is building or running, may come back in place of a newer one that fails, or is
 * the newest of its app, which can be deployed again with other variables.
 */
const inUse = sql<boolean>`exists (
  select from deployments where source_id = sources.id and (
    status in ('building', 'running') or superseded_by is not null or not exists (
      select from deployments as later
      where later.app_id = deployments.app_id and later.generation > deployments.generation
    )
  )
)`

/** Returns the commit of a source, and keeps it until the transaction ends. Throws `invalid_request`. */
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

/** Returns the number and the size of the sources of an account, with those that are being received. */
export async function usageOf(transaction: Transaction, accountId: string): Promise<{ count: number; bytes: number }> {
  const { count, bytes } = await tablesOf(transaction)
    .selectFrom('sources')
    .select(({ fn }) => [fn.countAll<string>().as('count'), fn.coalesce(fn.sum<string>('bytes'), sql`0`).as('bytes')])
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return { count: Number(count), bytes: Number(bytes) }
}

/** Deletes the row of the account's source that was not used for the longest time; returns its id, if there is one. */
export async function deleteOldest(transaction: Transaction, accountId: string): Promise<string | undefined> {
  // One that was uploaded just now is about to be deployed.
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

/** Deletes the rows of sources that were unused for so many days, and of uploads that were broken off. */
export async function deleteExpired(database: Database, days: number): Promise<void> {
  const unused = sql<boolean>`received_at is not null and used_at < now() - make_interval(days => ${days}) and not ${inUse}`
  await tablesOf(database).deleteFrom('sources').where(sql<boolean>`(${unused}) or (${abandoned})`).execute()
}

/** Deletes the rows of a project's sources, and returns their ids. */
export async function deleteOfProject(database: Database, projectId: string): Promise<string[]> {
  const sources = tablesOf(database).deleteFrom('sources').where('project_id', '=', projectId)
  return (await sources.returning('id').execute()).map(({ id }) => id)
}

/** Returns those of the ids that have rows. */
export async function knownSources(database: Database, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await tablesOf(database)
    .selectFrom('sources')
    .select('id')
    .where('id', '=', sql<string>`any(${[...ids]}::text[])`)
    .execute()
  return new Set(rows.map(({ id }) => id))
}
