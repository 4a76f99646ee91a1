import { enqueueForgotten } from './jobs.ts'
import type { DeployParts } from './parts.ts'
import { putAway } from './put-away.ts'

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
  for (const app of onDisk) {
    for (const release of app.releases) {
      if (parts.work.isBusy(release.id)) continue
      const row = await parts.store.find(release.id)
      const isKept = row?.retained === true && !processes.has(release.id)
      const isActive = row?.status === 'building' || row?.status === 'running'
      if (!isKept && !isActive) await putAway(parts, { id: release.id, app_id: app.id }).catch(warn(parts, release.id))
    }
    if (!apps.has(app.id)) await parts.releases.removeApp(app.id)
  }
  await enqueueForgotten(parts)
}

const warn = (parts: DeployParts, deployment: string) => (error: unknown) => {
  parts.logger.error({ err: error, deployment }, 'an old release could not be put away')
}
