import type { Background } from '../../platform/background.ts'
import type { Database } from '../../platform/database.ts'
import type { App, AppDirectory } from './app-directory.ts'
import { type Changed, parseChange } from './changes.ts'
import type { DeploymentLocks } from './lock.ts'
import type { DeploymentStore } from './rows.ts'
import type { RemoveDeployment, Teardown } from './teardown.ts'

/** Updates work and instances after requests have changed rows, on any server. */
interface ChangeFollower {
  /** Follows one change, in the background. Its payload only names the rows, which are read. */
  changed(payload: string): void
  /** Interrupts work for outdated generations, in case a notification was missed. */
  interruptOutdated(): Promise<void>
}

interface ChangeFollowerDependencies {
  readonly database: Database
  readonly store: { readonly rows: Pick<DeploymentStore['rows'], 'find'> }
  readonly apps: Pick<AppDirectory, 'byIds'>
  readonly locks: Pick<DeploymentLocks, 'interrupt' | 'held'>
  readonly addresses: { open(app: App): Promise<void>; close(appId: string): Promise<void> }
  readonly removeApp: (appId: string) => Promise<void>
  readonly teardown: Teardown
  readonly remove: RemoveDeployment
  readonly background: Background
  readonly wake: () => void
}

const everyGeneration = Number.POSITIVE_INFINITY

export function createChangeFollower(dependencies: ChangeFollowerDependencies): ChangeFollower {
  const { store, locks, background } = dependencies
  // An app is deleted with all its deployments, each of which is one change: the last change removes the app's data.
  const underway = new Map<string, number>()
  const followed = (appId: string): boolean => {
    const left = (underway.get(appId) ?? 1) - 1
    if (left === 0) underway.delete(appId)
    else underway.set(appId, left)
    return left === 0
  }
  const followCounted = async (change: Changed): Promise<void> => {
    underway.set(change.appId, (underway.get(change.appId) ?? 0) + 1)
    let appGone = false
    let isLast = false
    try {
      appGone = await follow(dependencies, change)
    } finally {
      isLast = followed(change.appId)
    }
    if (appGone && isLast) await dependencies.removeApp(change.appId)
  }
  return {
    changed(payload) {
      const change = parseChange(payload)
      background.add(followCounted(change), { app: change.appId, what: 'following a change' })
    },
    async interruptOutdated() {
      for (const { id } of locks.held()) interruptEnded(locks, id, await store.rows.find(id))
    },
  }
}

function interruptEnded(
  locks: Pick<DeploymentLocks, 'interrupt'>,
  id: string,
  row: { readonly status: string; readonly generation: number } | undefined,
): void {
  if (row === undefined) locks.interrupt({ id, generation: everyGeneration })
  else if (row.status === 'building') locks.interrupt({ id, generation: row.generation - 1 })
  else if (row.status !== 'running') locks.interrupt({ id, generation: row.generation, hasEnded: true })
}

/** Resolves to true when the app itself is gone. */
async function follow(dependencies: ChangeFollowerDependencies, { appId, deploymentId }: Changed): Promise<boolean> {
  const { database, store, apps, locks, addresses, teardown, remove } = dependencies
  const appNow = async () => (await apps.byIds(database, [appId])).get(appId)
  if (deploymentId === null) {
    const app = await appNow()
    if (app !== undefined) await addresses.open(app)
    return false
  }
  const row = await store.rows.find(deploymentId)
  interruptEnded(locks, deploymentId, row)
  if (row === undefined) {
    const appGone = (await appNow()) === undefined
    if (appGone) await addresses.close(appId)
    await remove({ id: deploymentId, app_id: appId })
    return appGone
  }
  if (row.status === 'running') dependencies.wake()
  else if (row.status !== 'building') await teardown(row)
  return false
}
