import type { App } from '../../apps/apps.ts'
import type { DeployParts } from './parts.ts'
import { putAway } from './teardown.ts'

/** Releases that can be gone back to, besides the one that runs. */
const releasesKept = 5
/** Deployments of an app whose logs are kept. */
const logsKept = 50

/** Removes the oldest releases and logs of an app beyond those that are kept. */
export async function prune(parts: DeployParts, app: App): Promise<void> {
  for (const row of await parts.store.prune(app.id, releasesKept)) {
    await putAway(parts, row)
  }
  const newest = new Set(await parts.store.newest(app.id, logsKept))
  const [found] = (await parts.releases.onDisk()).filter(({ id }) => id === app.id)
  const kept = new Set(found?.releases.map(({ id }) => id))
  for (const id of found?.logs ?? []) {
    if (!newest.has(id) && !kept.has(id)) await parts.releases.removeLog(app.id, id)
  }
}
