import { sleepUntilAborted } from '../../platform/abort.ts'
import { criticalBytes } from '../../platform/disk/free-space.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Runtimes } from '../../runtimes/runtimes.ts'
import { tooLarge } from './disk-guard.ts'
import type { DeploymentError } from './failure.ts'
import { type InstanceControl, releaseRef } from './instances.ts'
import type { DeploymentLocks } from './lock.ts'
import type { Fail } from './outcome.ts'
import { appToStop, diskFull, type Measured } from './reconcile.ts'
import type { Routes } from './routes.ts'
import type { DeploymentStore } from './rows.ts'
import type { DeploymentRow } from './tables.ts'

interface DiskWatch {
  /** Measures the disk usage of every running app repeatedly, until `signal` aborts. */
  watch(signal: AbortSignal): Promise<void>
}

interface DiskWatchDependencies {
  readonly store: Pick<DeploymentStore, 'rows'>
  readonly locks: Pick<DeploymentLocks, 'share' | 'isTaken'>
  readonly runtimes: Pick<Runtimes, 'named'>
  readonly routes: Pick<Routes, 'unroute'>
  readonly instances: Pick<InstanceControl, 'halt'>
  readonly freeBytes: () => Promise<number>
  readonly fail: Fail
  /** The most disk space of an app by the plan of its project, by project id. */
  readonly mostBytesOfAll: () => Promise<ReadonlyMap<string, number>>
  readonly reserveBytes: number
  readonly logger: Logger
}

/** The pause between two rounds, in milliseconds and as a multiple of the last round's duration. */
const pauses = {
  calm: { leastMs: 10_000, factor: 100 },
  filling: { leastMs: 1_000, factor: 10 },
} as const
/** The free space is read at this interval, at almost no cost; a fall by so many bytes means a filling disk. */
const freeIntervalMs = 1_000
const fillingBytes = 50_000_000
const recordRetryMs = 500

function pauseAfter(tookMs: number, pace: keyof typeof pauses): number {
  const { leastMs, factor } = pauses[pace]
  return Math.max(leastMs, factor * tookMs)
}

export function createDiskWatch(dependencies: DiskWatchDependencies): DiskWatch {
  const { freeBytes, reserveBytes, logger } = dependencies

  const pause = async (tookMs: number, free: number, signal: AbortSignal): Promise<void> => {
    const ended = performance.now()
    while (!signal.aborted) {
      await sleepUntilAborted(freeIntervalMs, signal)
      const waited = performance.now() - ended
      if (waited >= pauseAfter(tookMs, 'calm')) return
      const freeNow = await freeBytes()
      if (freeNow < reserveBytes) return
      if (waited >= pauseAfter(tookMs, 'filling') && free - freeNow > fillingBytes) return
    }
  }

  return {
    async watch(signal) {
      const last: LastRound = { running: [], most: new Map(), bytes: new Map() }
      while (!signal.aborted) {
        try {
          const begun = performance.now()
          const measured = await measureAll(dependencies, last, signal)
          const free = await freeBytes()
          for (const disk of await disksOf(dependencies, measured, free)) {
            await stopWriter(dependencies, disk.measured, disk.free, signal)
          }
          await pause(performance.now() - begun, free, signal)
        } catch (error) {
          logger.warn({ err: error }, 'the disk usage of apps could not be checked')
          await sleepUntilAborted(pauses.calm.leastMs, signal)
        }
      }
    },
  }
}

/** The findings of the last round: the only data while the database is unreachable because it cannot write. */
interface LastRound {
  running: readonly DeploymentRow[]
  most: ReadonlyMap<string, number>
  bytes: ReadonlyMap<string, number>
}

async function measureAll(
  dependencies: DiskWatchDependencies,
  last: LastRound,
  signal: AbortSignal,
): Promise<readonly Measured[]> {
  const { store, mostBytesOfAll, logger } = dependencies
  const measured: Measured[] = []
  try {
    last.running = await store.rows.running()
    last.most = await mostBytesOfAll()
  } catch (error) {
    logger.warn(
      { err: error },
      'the running apps or their limits could not be read; using the values of the last round',
    )
  }
  for (const row of last.running) {
    if (signal.aborted) break
    try {
      // A project without a plan is being removed with its apps.
      const most = last.most.get(row.project_id) ?? Number.POSITIVE_INFINITY
      const bytes = await measure(dependencies, row, most, signal)
      if (bytes !== undefined) measured.push({ row, bytes, before: last.bytes.get(row.id) })
    } catch (error) {
      logger.error({ err: error, deployment: row.id }, 'the disk usage of an app could not be measured')
    }
  }
  last.bytes = new Map(measured.map(({ row, bytes }) => [row.id, bytes]))
  return measured
}

/** Returns the disk usage of an app; `undefined` when it is being changed, or was stopped because it uses too much. */
async function measure(
  dependencies: DiskWatchDependencies,
  row: DeploymentRow,
  mostBytes: number,
  stopping: AbortSignal,
): Promise<number | undefined> {
  if (dependencies.locks.isTaken(row.id)) return undefined
  const bytes = await bytesOf(dependencies, row, mostBytes)
  if (bytes <= mostBytes) return bytes
  await stop(dependencies, row, tooLarge('run', mostBytes), stopping)
  return undefined
}

async function disksOf(
  { runtimes }: Pick<DiskWatchDependencies, 'runtimes'>,
  measured: readonly Measured[],
  free: number,
): Promise<readonly { readonly measured: readonly Measured[]; readonly free: number }[]> {
  let own: readonly Measured[] = []
  const others: { measured: readonly Measured[]; free: number }[] = []
  for (const [name, apps] of Map.groupBy(measured, ({ row }) => row.runtime)) {
    const elsewhere = (await runtimes.named(name).releases.freeElsewhere?.()) ?? null
    if (elsewhere === null) own = [...own, ...apps]
    else others.push({ measured: apps, free: elsewhere })
  }
  return [{ measured: own, free }, ...others]
}

/** Stops the app that writes the most while its disk is nearly full. The next round may stop another app. */
async function stopWriter(
  dependencies: DiskWatchDependencies,
  measured: readonly Measured[],
  freeBytes: number,
  signal: AbortSignal,
): Promise<void> {
  const { reserveBytes } = dependencies
  const row = appToStop(measured, { freeBytes, reserveBytes, criticalBytes: criticalBytes(reserveBytes) })
  if (row !== undefined) await stop(dependencies, row, diskFull(), signal)
}

/** Returns the disk usage of an app; any number above `enough` as soon as it uses more. */
async function bytesOf({ runtimes }: DiskWatchDependencies, row: DeploymentRow, enough: number): Promise<number> {
  const { builder, releases } = runtimes.named(row.runtime)
  // While a build of the app runs, the build's guard measures the folders that both can write to.
  const part = builder.isBuilding(row.app_id) ? 'release' : 'all'
  return releases.diskUsage(releaseRef(row), part, enough)
}

/**
 * Stops a running app under its lock. While the database is unreachable, the app is stopped first, and the stop is
 * recorded later.
 */
async function stop(
  dependencies: DiskWatchDependencies,
  seen: DeploymentRow,
  { failure }: DeploymentError,
  stopping: AbortSignal,
): Promise<void> {
  const { store, locks, routes, instances, fail, logger } = dependencies
  await locks.share(
    seen.id,
    async ({ signal }) => {
      // Read again: a request may have changed it since.
      const row = await store.rows.find(seen.id).catch(() => seen)
      if (row?.status !== 'running' || row.generation !== seen.generation || signal.aborted) return
      await routes.unroute(row)
      await instances.halt(releaseRef(row))
      logger.warn({ deployment: row.id, failure }, 'the app was stopped')
      await untilRecorded(() => fail(row, failure), signal)
    },
    stopping,
  )
}

/** The caller holds the lock until then, so that the app is not started again. */
async function untilRecorded(record: () => Promise<void>, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      return await record()
    } catch (error) {
      if (signal.aborted) throw error
      await sleepUntilAborted(recordRetryMs, signal)
    }
  }
}
