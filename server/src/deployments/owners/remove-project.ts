import type { DeployParts } from '../job/parts.ts'
import { removeRow } from './lifecycle.ts'

/**
 * Stops and removes all deployments and apps of a project: processes, files, logs, addresses, caches, rows. For a job:
 * it may be broken off at any moment and is called again until it resolves; calling it once more does nothing. No new
 * deployment of the project may be accepted any more.
 */
export async function removeProject(parts: DeployParts, projectId: string): Promise<void> {
  await parts.database.transaction().execute((transaction) => parts.store.endProject(transaction, projectId))
  const rows = await parts.store.ofProject(projectId)
  for (const row of rows) parts.work.interrupt(row)
  const apps = await parts.apps.ofProject(projectId)
  for (const app of apps) await parts.listening.close(app.id)
  // The rows go after what they stand for: as long as one is there, this is not done.
  for (const row of rows) await removeRow(parts, row, { appGone: false })
  for (const app of apps) await parts.releases.removeApp(app.id)
  await parts.gitCache.removeProject(projectId)
  await parts.database.transaction().execute((transaction) => parts.store.deleteProject(transaction, projectId))
}
