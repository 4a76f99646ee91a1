import type { DeploymentTrigger } from '../../../contract/resources/deployments.ts'
import type { Database, Transaction } from '../../../platform/database.ts'
import { notifyChange } from '../../state/changes.ts'
import { enqueueDeployment } from '../../state/queue.ts'
import type { DeploymentStore } from '../../state/store.ts'
import type { DeploymentRow } from '../../state/tables.ts'
import { servingWith } from '../../state/variables-of-apps/links.ts'

/** Restarts the releases that serve with the connection string of a database. Call it when its new password works. */
export type RestartLinked = (databaseId: string, by: DeploymentTrigger) => Promise<void>

export function createRestartLinked({
  database,
  store,
}: {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'requests' | 'ofProjects'>
}): RestartLinked {
  return async (databaseId, by) => {
    for (const row of await servingWith(database, databaseId)) {
      await database.transaction().execute((transaction) => restartRelease(store, transaction, row, by))
    }
  }
}

/**
 * Restarts a release that begins to serve with a password that was rotated after its start.
 *
 * @param started its row as it was then
 */
export async function catchUpWithRotation(
  store: Pick<DeploymentStore, 'requests' | 'ofProjects' | 'releases'>,
  transaction: Transaction,
  started: DeploymentRow,
): Promise<void> {
  const [row] = await store.releases.serving(transaction, [started.app_id])
  if (row?.id !== started.id || row.variables.equals(started.variables)) return
  const by = row.last_request?.by ?? row.triggered_by
  if (by !== null) await restartRelease(store, transaction, row, by)
}

async function restartRelease(
  { requests, ofProjects }: Pick<DeploymentStore, 'requests' | 'ofProjects'>,
  transaction: Transaction,
  row: DeploymentRow,
  by: DeploymentTrigger,
): Promise<void> {
  // False when another change came first: it starts the app with the new password, too.
  if (!(await requests.restartServing(transaction, row, by))) return
  await enqueueDeployment(transaction, ofProjects, row)
  await notifyChange(transaction, { appId: row.app_id, deploymentId: row.id })
}
