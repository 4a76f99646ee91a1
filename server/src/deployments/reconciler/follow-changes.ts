import type { Background } from '../../platform/background.ts'
import type { Database } from '../../platform/database.ts'
import type { Teardown } from '../job/teardown.ts'
import type { App, AppDirectory } from '../state/apps.ts'
import { type Changed, parseChange } from '../state/changes.ts'
import type { DeploymentLocks } from '../state/lock.ts'
import type { DeploymentStore } from '../state/store.ts'
import type { RemoveDeployment } from './remove.ts'

/** Lets work and instances follow the rows that requests have changed, on whichever server they landed. */
export interface ChangeFollower {
  /** Follows one change, in the background. Its payload only names the rows, which are read. */
  changed(payload: string): void
  /** Interrupts work for generations that are over by now, in case that a notification was missed. */
  interruptOutdated(): Promise<void>
}

export interface ChangeFollowerDependencies {
  readonly database: Database
  readonly store: { readonly rows: Pick<DeploymentStore['rows'], 'find'> }
  readonly apps: Pick<AppDirectory, 'byIds'>
  readonly locks: Pick<DeploymentLocks, 'interrupt' | 'held'>
  readonly openAddress: (app: App) => Promise<void>
  readonly teardown: Teardown
  readonly remove: RemoveDeployment
  readonly background: Background
}

/** Higher than every generation. */
const everyGeneration = Number.POSITIVE_INFINITY

export function createChangeFollower(dependencies: ChangeFollowerDependencies): ChangeFollower {
  const { store, locks, background } = dependencies
  const interrupt = async (id: string): Promise<void> => {
    const row = await store.rows.find(id)
    const ended = endedGeneration(row)
    if (ended !== null) locks.interrupt({ id, generation: ended })
  }
  return {
    changed(payload) {
      const change = parseChange(payload)
      background.add(follow(dependencies, change), { app: change.appId, what: 'following a change' })
    },
    async interruptOutdated() {
      for (const { id } of locks.held()) await interrupt(id)
    },
  }
}

/** Returns the highest generation that nothing may be done for any more; null while the deployment runs. */
function endedGeneration(row: { readonly status: string; readonly generation: number } | undefined): number | null {
  if (row === undefined) return everyGeneration
  if (row.status === 'running') return null
  return row.status === 'building' ? row.generation - 1 : row.generation
}

async function follow(dependencies: ChangeFollowerDependencies, { appId, deploymentId }: Changed): Promise<void> {
  const { database, store, apps, locks, openAddress, teardown, remove } = dependencies
  const appNow = async () => (await apps.byIds(database, [appId])).get(appId)
  if (deploymentId === null) {
    const app = await appNow()
    if (app !== undefined) await openAddress(app)
    return
  }
  const row = await store.rows.find(deploymentId)
  const ended = endedGeneration(row)
  if (ended !== null) locks.interrupt({ id: deploymentId, generation: ended })
  if (row === undefined) {
    await remove({ id: deploymentId, app_id: appId }, { appGone: (await appNow()) === undefined })
  } else if (row.status !== 'building' && row.status !== 'running') {
    await teardown(row)
  }
}
