import type { Command } from '../../platform/command.ts'
import type { Database } from '../../platform/database.ts'
import { staticServerName } from '../../platform/toolchain.ts'
import { type Handle, type Instances, type Release, RuntimeError, type StopOptions } from '../../runtimes/runtime.ts'
import type { Runtimes } from '../../runtimes/runtimes.ts'
import type { AppDirectory } from './app-directory.ts'
import type { DeploymentLocks } from './lock.ts'
import type { DeploymentStore } from './rows.ts'
import type { ReleaseOf } from './secrets.ts'
import type { DeploymentRow } from './tables.ts'
import type { Teardown } from './teardown.ts'

interface CommandTarget {
  readonly release: Release
  readonly handle: Handle
  readonly instances: Pick<Instances, 'attach'>
  /** Present for a stopped release, whose instance was started for the command. */
  readonly own?: {
    /** Aborts when a request needs the release. */
    readonly signal: AbortSignal
    readonly end: () => Promise<void>
  }
}

/**
 * Returns the instance that serves an app; null when no instance serves it.
 *
 * @param options.mayStart true to start an instance of the release that was stopped or failed last, when no release of
 * the app runs
 * @throws RuntimeError when no instance can be started
 */
export type FindCommandTarget = (
  appId: string,
  options: { readonly mayStart: boolean },
) => Promise<CommandTarget | null>

interface FindDependencies {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'releases' | 'rows'>
  readonly apps: Pick<AppDirectory, 'byIds'>
  readonly releaseOf: ReleaseOf
  readonly runtimes: Runtimes
  readonly instances: {
    start(
      release: Release,
      runtime: string,
      command: Command,
      options: { readonly beside: boolean; readonly process: string },
    ): Promise<Handle>
    stop(release: Release, handle: Handle, options: StopOptions): Promise<void>
  }
  readonly locks: Pick<DeploymentLocks, 'share'>
  readonly teardown: Teardown
}

export function createFindCommandTarget(dependencies: FindDependencies): FindCommandTarget {
  const { database, store, apps, releaseOf, runtimes } = dependencies
  const startOwn = createStartOwn(dependencies)
  return async (appId, { mayStart }) => {
    const app = (await apps.byIds(database, [appId])).get(appId)
    if (app === undefined) return null
    const [row] = await store.releases.serving(database, [appId])
    if (row === undefined && mayStart) {
      const latestEnded = await store.releases.latestEnded(database, appId)
      return latestEnded === undefined ? null : startOwn(latestEnded, await releaseOf(latestEnded, app))
    }
    if (row === undefined || row.instance === null) return null
    const { instances } = runtimes.named(row.instance.runtime)
    return { release: await releaseOf(row, app), handle: row.instance, instances }
  }
}

/** The instance itself does nothing; commands run beside it. */
const idle = { argv: ['sleep', 'infinity'] } as const

/** Starts an instance of a stopped release for one command, which shares the deployment's lock. */
function createStartOwn({ store, runtimes, instances, locks, teardown }: FindDependencies) {
  return async ({ id, runtime, build_plan }: DeploymentRow, release: Release): Promise<CommandTarget> => {
    if (build_plan?.start.argv.includes(staticServerName)) {
      throw new RuntimeError('no_process', 'A static site runs no process, so that no command can run beside it.')
    }
    for (;;) {
      const found = await locks.share(id, async ({ signal, setGeneration, holdUntil }) => {
        const row = await store.rows.find(id)
        // The interruption may be older than the row.
        if (signal.aborted) return 'read again'
        if (row?.retained !== true || row.status === 'building' || row.status === 'running') {
          throw new RuntimeError('not_running', 'The app is being started; try again.')
        }
        // It was just stopped, and its instance runs until the leader handles the notification.
        if (row.instance !== null) return 'tear down'
        setGeneration({ ...row, hasEnded: true })
        const options = { beside: true, process: 'run.1' }
        const handle = await instances.start({ ...release, internalName: null }, runtime, idle, options)
        const ended = Promise.withResolvers<void>()
        void holdUntil(ended.promise)
        const end = () => instances.stop(release, handle, { graceMs: 0 }).finally(ended.resolve)
        return { release, handle, instances: runtimes.named(runtime).instances, own: { signal, end } }
      })
      if (typeof found !== 'string') return found
      if (found === 'tear down') await teardown({ id, app_id: release.appId })
    }
  }
}
