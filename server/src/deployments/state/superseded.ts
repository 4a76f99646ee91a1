import type { Transaction } from '../../platform/database.ts'
import { notifyChange } from './changes.ts'
import { enqueueDeployment } from './queue.ts'
import type { ProjectReads } from './reads.ts'
import { atRest } from './rows.ts'
import { type DeploymentRow, tablesOf } from './tables.ts'

/*
 * A new deployment supersedes those of its app whose build has not begun. If the new one is canceled or fails, the last one that it
 * superseded waits for its build again. So the superseded one keeps its token until a newer one serves. Callers hold the lock of the app.
 */

/** Supersedes what waits for its build, but for releases that are started again. */
export async function supersedeWaiting(transaction: Transaction, by: { id: string; appId: string }): Promise<void> {
  const { finished_at, builds_before } = atRest
  await tablesOf(transaction)
    .updateTable('deployments')
    .set({ status: 'superseded', superseded_by: by.id, finished_at, builds_before })
    .where('app_id', '=', by.appId)
    .where('status', '=', 'building')
    .where('started_at', 'is', null)
    .where('retained', '=', false)
    .execute()
}

/** Gives up for good what newer deployments of the app have superseded: all of it, or what is older than a generation. */
export async function giveUpSuperseded(
  transaction: Transaction,
  { app_id, generation }: { readonly app_id: string; readonly generation?: number },
): Promise<void> {
  await tablesOf(transaction)
    .updateTable('deployments')
    .set({ superseded_by: null, git_token: null })
    .where('app_id', '=', app_id)
    .where('superseded_by', 'is not', null)
    .$if(generation !== undefined, (query) => query.where('generation', '<', generation ?? 0))
    .execute()
}

/** Lets what a deployment has superseded wait for its build again, once that one is canceled or has failed. */
export async function bringBackSuperseded(
  transaction: Transaction,
  reads: Pick<ProjectReads, 'countBuilding'>,
  ended: Pick<DeploymentRow, 'id' | 'app_id'>,
): Promise<void> {
  const deployments = tablesOf(transaction)
  const found = await deployments
    .selectFrom('deployments')
    .select(['id', 'generation'])
    .where('superseded_by', '=', ended.id)
    .orderBy('generation', 'desc')
    .executeTakeFirst()
  if (found === undefined) return
  const next = await deployments
    .selectFrom('deployments')
    .select('id')
    .where('app_id', '=', ended.app_id)
    .where('generation', '>', found.generation)
    .where('status', '=', 'building')
    .orderBy('generation')
    .executeTakeFirst()
  // Of several, the newest one comes back, and has superseded the others.
  await deployments
    .updateTable('deployments')
    .set({ superseded_by: next?.id ?? found.id })
    .where('superseded_by', '=', ended.id)
    .execute()
  if (next !== undefined) return
  const row = await deployments
    .updateTable('deployments')
    .set({ status: 'building', superseded_by: null, finished_at: null })
    .where('id', '=', found.id)
    .returningAll()
    .executeTakeFirstOrThrow()
  await enqueueDeployment(transaction, reads, row)
  await notifyChange(transaction, { appId: row.app_id, deploymentId: row.id })
}
