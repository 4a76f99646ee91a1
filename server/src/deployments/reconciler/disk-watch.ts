import { sleepUntilAborted } from '../../platform/abort.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Runtimes } from '../../runtimes/runtimes.ts'
import { type DiskGuard, tooLarge } from '../job/disk.ts'
import type { Fail } from '../job/fail.ts'
import { type InstanceControl, releaseRef } from '../job/instances.ts'
import type { Routes } from '../job/routes.ts'
import type { DeploymentLocks } from '../state/lock.ts'
import type { DeploymentStore } from '../state/store.ts'
import type { DeploymentRow } from '../state/tables.ts'

/** Stops apps that fill the disk as they run. */
export interface DiskWatch {
  /** Measures the disk usage of every running app, again and again until `signal` aborts. */
  watch(signal: AbortSignal): Promise<void>
}

export interface DiskWatchDependencies {
  readonly store: Pick<DeploymentStore, 'rows'>
  readonly locks: Pick<DeploymentLocks, 'run' | 'isHeld'>
  readonly runtimes: Pick<Runtimes, 'named'>
  readonly routes: Pick<Routes, 'unroute'>
  readonly instances: Pick<InstanceControl, 'halt'>
  readonly disk: Pick<DiskGuard, 'freeBytes'>
  readonly fail: Fail
  /** The most that a running app may have on the disk. */
  readonly mostAppBytes: number
  readonly logger: Logger
}

/** Measuring all apps takes time. The pause between two rounds, in milliseconds and as a multiple of that time. */
const pauses = {
  calm: { leastMs: 10_000, factor: 100 },
  filling: { leastMs: 1_000, factor: 10 },
} as const
/** The free space is read this often, which costs nothing; when it fell by this much, the disk is filling. */
const freeIntervalMs = 1_000
const fillingBytes = 50_000_000

/** Returns the pause after a round that took `tookMs`. */
function pauseAfter(tookMs: number, pace: keyof typeof pauses): number {
  const { leastMs, factor } = pauses[pace]
  return Math.max(leastMs, factor * tookMs)
}

export function createDiskWatch(dependencies: DiskWatchDependencies): DiskWatch {
  const { disk, logger } = dependencies

  const pause = async (tookMs: number, free: number, signal: AbortSignal): Promise<void> => {
    const ended = performance.now()
    while (!signal.aborted) {
      await sleepUntilAborted(freeIntervalMs, signal)
      const waited = performance.now() - ended
      if (waited >= pauseAfter(tookMs, 'calm')) return
      if (waited >= pauseAfter(tookMs, 'filling') && free - (await disk.freeBytes()) > fillingBytes) return
    }
  }

  return {
    async watch(signal) {
      while (!signal.aborted) {
        try {
          const free = await disk.freeBytes()
          const begun = performance.now()
          await measureAll(dependencies, signal)
          await pause(performance.now() - begun, free, signal)
        } catch (error) {
          logger.warn({ err: error }, 'the free disk space could not be read')
          await sleepUntilAborted(pauses.calm.leastMs, signal)
        }
      }
    },
  }
}

async function measureAll(dependencies: DiskWatchDependencies, signal: AbortSignal): Promise<void> {
  const { store, logger } = dependencies
  for (const row of await store.rows.running()) {
    if (signal.aborted) return
    await measure(dependencies, row, signal).catch((error: unknown) => {
      logger.error({ err: error, deployment: row.id }, 'the disk usage of an app could not be measured')
    })
  }
}

async function measure(dependencies: DiskWatchDependencies, seen: DeploymentRow, stopping: AbortSignal): Promise<void> {
  const { store, locks, mostAppBytes } = dependencies
  if (locks.isHeld(seen.id) || (await bytesOf(dependencies, seen)) <= mostAppBytes) return
  await locks.run(
    seen.id,
    async ({ signal }) => {
      // Read again: a request may have changed it meanwhile.
      const row = await store.rows.find(seen.id)
      if (row?.status !== 'running' || row.generation !== seen.generation || signal.aborted) return
      await stop(dependencies, row)
    },
    stopping,
  )
}

async function bytesOf({ runtimes, mostAppBytes }: DiskWatchDependencies, row: DeploymentRow): Promise<number> {
  const { builder, releases } = runtimes.named(row.runtime)
  const own = await releases.diskUsage(releaseRef(row), 'release', mostAppBytes)
  // While a build of the app runs, the folders that both can write to are guarded with the build.
  if (own > mostAppBytes || builder.isBuilding(row.app_id)) return own
  return own + (await releases.diskUsage(releaseRef(row), 'shared', mostAppBytes))
}

async function stop(dependencies: DiskWatchDependencies, row: DeploymentRow): Promise<void> {
  const { routes, instances, fail, mostAppBytes, logger } = dependencies
  await routes.unroute(row)
  await instances.halt(releaseRef(row))
  const { failure } = tooLarge('run', mostAppBytes)
  logger.info({ deployment: row.id, failure }, 'the app was stopped')
  await fail(row, failure)
}
