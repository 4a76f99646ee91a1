import type { FileHandle } from 'node:fs/promises'
import { firstProcess, type LogName, type LogStore } from '../../logs/log-store.ts'
import type { Command } from '../../platform/command.ts'
import type { Handle, Instances, Release, ReleaseRef, Runtime, StopOptions } from '../../runtimes/runtime.ts'
import type { Runtimes } from '../../runtimes/runtimes.ts'
import type { DeploymentRow } from './tables.ts'

/**
 * A release, with the name of the runtime that keeps it by its row. The name is null without a row: then any runtime
 * may keep it.
 */
interface KeptRelease extends ReleaseRef {
  readonly runtime: string | null
}

/**
 * Starts and ends the instances of releases, each with its log. An unreachable runtime does not affect releases of
 * other runtimes.
 */
export interface InstanceControl {
  /** Like `Instances.start`, with the log of that instance. The default name is `web.1`. */
  start(
    release: Release,
    runtime: string,
    command: Command,
    options?: { readonly beside?: boolean; readonly process?: string },
  ): Promise<Handle>
  /**
   * Takes over an instance that an earlier server has started: its limits, its access and its log. It may be called
   * again if the access was lost.
   */
  adopt(release: Release, handle: Handle): Promise<void>
  /** True when this leader has started or adopted the instance, and it has not ended. */
  isAdopted(handle: Handle): boolean
  /** Calls the listener whenever an instance ends that this leader has started or adopted. */
  onEnded(listener: () => void): void
  observe: Instances['observe']
  /** Like `Instances.serveAt`; the instance stays adopted. */
  serveAt: Instances['serveAt']
  stop(release: ReleaseRef, handle: Handle, options: StopOptions): Promise<void>
  /** Ends everything that runs of a release, at once when no options are given. Keeps its files. */
  halt(release: KeptRelease, options?: StopOptions): Promise<void>
  /** Ends everything that runs of a release and removes its files. Keeps its logs. */
  remove(release: KeptRelease): Promise<void>
  /** False for a release without files, instances or images. */
  isMade(release: KeptRelease): Promise<boolean>
}

interface InstanceControlDependencies {
  readonly runtimes: Runtimes
  readonly logs: Pick<LogStore, 'open' | 'record' | 'flush' | 'processes'>
}

export function createInstanceControl({ runtimes, logs }: InstanceControlDependencies): InstanceControl {
  const instancesOf = (handle: Handle): Instances => runtimes.named(handle.runtime).instances
  const adopted = createAdopted(instancesOf)
  const withOutput = createOutput(logs)

  return {
    start: (release, runtime, command, { process, ...options } = {}) =>
      withOutput(release, process, async (output, join) => {
        // Before the first line, so that every line has its time.
        const leave = await join()
        try {
          const { size: logFrom } = await output.stat()
          const started = await runtimes.named(runtime).instances.start(release, command, output, options)
          const handle = named(started, { process, logFrom, rotations: release.rotations })
          adopted.add(handle, leave)
          return handle
        } catch (error) {
          leave()
          throw error
        }
      }),

    adopt: (release, handle) =>
      withOutput(release, handle.process, async (output, join) => {
        await instancesOf(handle).adopt(release, handle, output)
        if (!adopted.has(handle)) adopted.add(handle, await join())
      }),

    isAdopted: adopted.has,

    onEnded: adopted.onEnded,

    observe: (handle) => instancesOf(handle).observe(handle),

    serveAt: async (handle, port) =>
      adopted.rename(handle, named(await instancesOf(handle).serveAt(handle, port), handle)),

    async stop(release, handle, options) {
      await instancesOf(handle).stop(handle, options)
      // The server may stop before the log is recorded again.
      if (options.signal?.aborted !== true) await logs.flush(logOf(release, handle.process))
    },

    ...endings({ runtimes, logs }),

    isMade: (release) => isMadeBy(runtimes, release),
  }
}

/** Adds to the handle the facts that runtimes do not need. */
const named = (
  handle: Handle,
  {
    process = firstProcess,
    logFrom = 0,
    rotations = 0,
  }: { readonly process?: string | undefined; readonly logFrom?: number; readonly rotations?: number | undefined },
): Handle => ({
  ...handle,
  ...(process === firstProcess ? {} : { process }),
  ...(logFrom === 0 ? {} : { logFrom }),
  ...(rotations === 0 ? {} : { rotations }),
})

function endings({ runtimes, logs }: InstanceControlDependencies): Pick<InstanceControl, 'halt' | 'remove'> {
  return {
    async halt(release, options) {
      for await (const { releases } of holdersOf(runtimes, release)) await releases.halt(release, options)
      if (options?.signal?.aborted !== true) await flushAll(logs, release)
    },

    async remove(release) {
      for await (const { releases } of holdersOf(runtimes, release)) await releases.remove(release)
      await flushAll(logs, release)
    },
  }
}

async function flushAll(logs: Pick<LogStore, 'flush' | 'processes'>, release: ReleaseRef): Promise<void> {
  for (const process of await logs.processes(logOf(release))) await logs.flush(logOf(release, process))
}

/** Opens the log of an instance, and records the times of its lines until the instance leaves the recording. */
function createOutput(logs: InstanceControlDependencies['logs']) {
  const recordings = createRecordings(logs)
  return async <T>(
    release: ReleaseRef,
    process: string | undefined,
    use: (output: FileHandle, join: () => Promise<() => void>) => Promise<T>,
  ): Promise<T> => {
    const log = logOf(release, process)
    await using output = await logs.open(log)
    return await use(output, () => recordings.join(log))
  }
}

/**
 * Yields the runtimes that may hold parts of a release. Skips an unreachable runtime for images, unless it keeps the
 * release: the sweep removes the rest later.
 */
async function* holdersOf(runtimes: Pick<Runtimes, 'all'>, release: KeptRelease): AsyncGenerator<Runtime> {
  for (const runtime of mayHave(runtimes, release)) {
    const isHolder = runtime.images === null || runtime.name === release.runtime
    // Queried after the other runtimes, which do not wait for an engine that hangs.
    if (isHolder || (await runtime.releases.isMade(release))) yield runtime
  }
}

async function isMadeBy(runtimes: Pick<Runtimes, 'all'>, release: KeptRelease): Promise<boolean> {
  const made = await Promise.all(mayHave(runtimes, release).map(({ releases }) => releases.isMade(release)))
  return made.includes(true)
}

/** Images are made from sources that another runtime keeps. Every other release is entirely in one runtime. */
function mayHave({ all }: Pick<Runtimes, 'all'>, { runtime }: KeptRelease): readonly Runtime[] {
  const holder = all.find(({ name }) => name === runtime)
  return holder === undefined || holder.images !== null ? all : [holder]
}

function createAdopted(instancesOf: (handle: Handle) => Pick<Instances, 'watch'>) {
  const keys = new Map<string, { key: string }>()
  // The database reorders the members of some handles.
  const keyOf = ({ runtime, data }: Handle): string => JSON.stringify([runtime, Object.entries(data).sort()])
  const listeners = new Set<() => void>()
  return {
    has: (handle: Handle): boolean => keys.has(keyOf(handle)),

    /** @param ended called when the instance ends, before the listeners */
    add(handle: Handle, ended: () => void): void {
      const entry = { key: keyOf(handle) }
      keys.set(entry.key, entry)
      instancesOf(handle).watch(handle, () => {
        keys.delete(entry.key)
        ended()
        for (const listener of listeners) listener()
      })
    },

    rename(handle: Handle, to: Handle): Handle {
      const entry = keys.get(keyOf(handle))
      if (entry === undefined) return to
      keys.delete(entry.key)
      entry.key = keyOf(to)
      keys.set(entry.key, entry)
      return to
    },

    onEnded: (listener: () => void): void => void listeners.add(listener),
  }
}

const logOf = ({ id, appId }: ReleaseRef, process?: string): LogName => ({
  appId,
  deploymentId: id,
  stream: 'runtime',
  process,
})

export const releaseRef = ({
  id,
  app_id,
  runtime,
}: Pick<DeploymentRow, 'id' | 'app_id'> & Pick<KeptRelease, 'runtime'>): KeptRelease => ({
  ...{ id, runtime },
  appId: app_id,
})

/** Returns a function that removes all data of an app from runtimes and logs. No part of the app may run any more. */
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

/** Records each log while any instance that prints to it lives: the next may start before the last has ended. */
interface Recordings {
  /** Several callers share a recording; the last call of a returned function ends it. */
  join(log: LogName): Promise<() => void>
}

interface Recording {
  users: number
  readonly ended: PromiseWithResolvers<void>
  readonly begun: Promise<void>
}

function createRecordings(logs: Pick<LogStore, 'record'>): Recordings {
  const recordings = new Map<string, Recording>()
  const begin = (log: LogName): Recording => {
    const ended = Promise.withResolvers<void>()
    return { users: 0, ended, begun: logs.record(log, ended.promise) }
  }
  return {
    async join(log) {
      const key = `${log.appId} ${log.deploymentId} ${log.stream} ${log.process ?? ''}`
      const recording = recordings.get(key) ?? begin(log)
      recordings.set(key, recording)
      recording.users += 1
      const leave = (): void => {
        recording.users -= 1
        if (recording.users > 0) return
        if (recordings.get(key) === recording) recordings.delete(key)
        recording.ended.resolve()
      }
      await recording.begun.catch((error: unknown) => {
        leave()
        throw error
      })
      return leave
    },
  }
}
