import type { DeployParts } from '../job/parts.ts'
import { putAway } from '../job/teardown.ts'
import { enqueueForgotten } from '../state/queue.ts'
import type { AppOnDisk } from '../state/releases.ts'

/**
 * Compares what is there with what the database says, and puts away what should not be: releases that are neither
 * active nor kept, processes of releases at rest, apps that are gone; and gives every deployment that is building its
 * job. All of this happens by itself where it belongs; the sweep is for what a crash, a full disk or a database that
 * was away has cut short.
 */
export async function sweep(parts: DeployParts): Promise<void> {
  const onDisk = await parts.releases.onDisk()
  const processes = await parts.runner.withProcesses()
  // Asked after looking: what has begun since is in the answer, or was not seen.
  const apps = new Set((await parts.apps.list()).map(({ id }) => id))
  const clear = async (app: AppOnDisk): Promise<void> => {
    for (const { id } of app.releases) {
      if (parts.work.isBusy(id)) continue
      const row = await parts.store.find(id)
      const isKept = row?.retained === true && !processes.has(id)
      const isActive = row?.status === 'building' || row?.status === 'running'
      if (!isKept && !isActive) await putAway(parts, { id, app_id: app.id })
    }
    if (!apps.has(app.id)) await parts.releases.removeApp(app.id)
  }
  // Side by side: a process may take its time to end.
  await Promise.all(
    onDisk.map((app) =>
      clear(app).catch((error: unknown) => {
        parts.logger.error({ err: error, app: app.id }, 'what is left of an app could not be put away')
      }),
    ),
  )
  await enqueueForgotten(parts)
}
