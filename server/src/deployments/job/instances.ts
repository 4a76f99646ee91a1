import type { LogName, LogStore } from '../../logs/log-store.ts'
import type { Command } from '../../platform/command.ts'
import type { Handle, Instances, Release, ReleaseRef, StopOptions } from '../../runtimes/runtime.ts'
import type { Runtimes } from '../../runtimes/runtimes.ts'

/** Starts and ends the instances of releases, each with its log. */
export interface InstanceControl {
  start(release: Release, runtime: string, command: Command): Promise<Handle>
  /** Takes over an instance that an earlier server has started: its limits and its log. */
  adopt(release: Release, handle: Handle): Promise<void>
  /** True when this leader has started or adopted the instance, and it has not ended. */
  isAdopted(handle: Handle): boolean
  observe: Instances['observe']
  watch: Instances['watch']
  stop(release: ReleaseRef, handle: Handle, options: StopOptions): Promise<void>
  /** Ends everything that runs of a release, at once when no options are given. Its files are kept. */
  halt(release: ReleaseRef, options?: StopOptions): Promise<void>
  /** Ends everything that runs of a release and removes its files. Its logs are kept. */
  remove(release: ReleaseRef): Promise<void>
}

export function createInstanceControl({
  runtimes,
  logs,
}: {
  readonly runtimes: Runtimes
  readonly logs: Pick<LogStore, 'open' | 'record' | 'flush'>
}): InstanceControl {
  const instancesOf = (handle: Handle): Instances => runtimes.named(handle.runtime).instances
  const adopted = new Set<string>()
  const keyOf = (handle: Handle): string => JSON.stringify(handle)

  return {
    async start(release, runtime, command) {
      const { instances } = runtimes.named(runtime)
      const log = logOf(release)
      const output = await logs.open(log)
      const ended = Promise.withResolvers<void>()
      try {
        // Before the first line, so that every line has its time.
        await logs.record(log, ended.promise)
        const handle = await instances.start(release, command, output)
        adopted.add(keyOf(handle))
        instances.watch(handle, () => {
          adopted.delete(keyOf(handle))
          ended.resolve()
        })
        return handle
      } catch (error) {
        ended.resolve()
        throw error
      } finally {
        await output.close()
      }
    },

    async adopt(release, handle) {
      const instances = instancesOf(handle)
      await instances.adopt(release, handle)
      const ended = Promise.withResolvers<void>()
      await logs.record(logOf(release), ended.promise)
      adopted.add(keyOf(handle))
      instances.watch(handle, () => {
        adopted.delete(keyOf(handle))
        ended.resolve()
      })
    },

    isAdopted: (handle) => adopted.has(keyOf(handle)),

    observe: (handle) => instancesOf(handle).observe(handle),
    watch: (handle, onExit) => instancesOf(handle).watch(handle, onExit),

    async stop(release, handle, options) {
      await instancesOf(handle).stop(handle, options)
      // The server may stop before the log is recorded again.
      if (options.signal?.aborted !== true) await logs.flush(logOf(release))
    },

    async halt(release, options) {
      for (const { releases } of runtimes.all) await releases.halt(release, options)
      if (options?.signal?.aborted !== true) await logs.flush(logOf(release))
    },

    async remove(release) {
      for (const { releases } of runtimes.all) await releases.remove(release)
      await logs.flush(logOf(release))
    },
  }
}

const logOf = ({ id, appId }: ReleaseRef): LogName => ({ appId, deploymentId: id, stream: 'runtime' })

/** Names the release of a deployment's row. */
export const releaseRef = ({ id, app_id }: { readonly id: string; readonly app_id: string }): ReleaseRef => ({
  id,
  appId: app_id,
})

/** Makes the function that removes everything that runtimes and logs keep of an app; nothing of it may run any more. */
export function createRemoveApp({
  runtimes,
  logs,
}: {
  readonly runtimes: Pick<Runtimes, 'all'>
  readonly logs: Pick<LogStore, 'removeApp'>
}): (appId: string) => Promise<void> {
  return async (appId) => {
    for (const { releases } of runtimes.all) await releases.removeApp(appId)
    await logs.removeApp(appId)
  }
}
