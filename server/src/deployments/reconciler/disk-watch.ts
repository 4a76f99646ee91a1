import { sleepUntilAborted } from '../../platform/abort.ts'
import { sizeOf } from '../../platform/disk/tree-size.ts'
import { cacheOf, homeOf, temporaryFolderOf } from '../../runtimes/process/environment.ts'
import { tooLarge } from '../job/disk.ts'
import { unroute } from '../job/drain.ts'
import { failDeployment } from '../job/fail.ts'
import type { DeployParts } from '../job/parts.ts'
import type { DeploymentRow } from '../state/store.ts'

/** Stops apps that fill the disk as they run. */
export interface DiskWatch {
  /** Looks at what every running app has on the disk, again and again until `signal` aborts. */
  watch(signal: AbortSignal): Promise<void>
}

/** To look at all takes time: how long to leave off, in milliseconds and as a multiple of that time. */
const pauses = {
  calm: { leastMs: 10_000, factor: 100 },
  filling: { leastMs: 1_000, factor: 10 },
} as const
/** Free space is asked for this often, which costs nothing; when so much of it went since, the disk is filling. */
const freeIntervalMs = 1_000
const fillingBytes = 50_000_000

/** How long to leave off after a look at all that took `tookMs`. */
export function pauseAfter(tookMs: number, pace: keyof typeof pauses): number {
  const { leastMs, factor } = pauses[pace]
  return Math.max(leastMs, factor * tookMs)
}

export function createDiskWatch(parts: DeployParts): DiskWatch {
  const { mostAppBytes } = parts.settings

  const bytesOf = (row: DeploymentRow): Promise<number> => {
    const place = parts.releases.placeOf(row)
    const cache = cacheOf(place)
    // While a build of the app runs, what both can write to is held with the build.
    const shared = parts.caches.isInUse(cache) ? [] : [homeOf(place), temporaryFolderOf(place), cache]
    return sizeOf([place.directory, ...shared], mostAppBytes)
  }

  const look = async (seen: DeploymentRow, stopping: AbortSignal): Promise<void> => {
    if (parts.work.isBusy(seen.id) || (await bytesOf(seen)) <= mostAppBytes) return
    await parts.work.run(
      seen.id,
      async ({ signal }) => {
        // Read again: it may be wanted in another way meanwhile.
        const row = await parts.store.find(seen.id)
        if (row?.status !== 'running' || row.intent !== seen.intent || signal.aborted) return
        await unroute(parts, row)
        await parts.runner.halt(parts.releases.placeOf(row))
        const { failure } = tooLarge('run', mostAppBytes)
        parts.logger.info({ deployment: row.id, failure }, 'the app was stopped')
        await failDeployment(parts, row, failure)
      },
      stopping,
    )
  }

  const lookAtAll = async (signal: AbortSignal): Promise<void> => {
    for (const row of await parts.store.running()) {
      if (signal.aborted) return
      await look(row, signal).catch((error: unknown) => {
        parts.logger.error({ err: error, deployment: row.id }, 'what an app has on the disk could not be looked at')
      })
    }
  }

  const leaveOff = async (tookMs: number, free: number, signal: AbortSignal): Promise<void> => {
    const ended = performance.now()
    while (!signal.aborted) {
      await sleepUntilAborted(freeIntervalMs, signal)
      const waited = performance.now() - ended
      if (waited >= pauseAfter(tookMs, 'calm')) return
      if (waited >= pauseAfter(tookMs, 'filling') && free - (await parts.disk.freeBytes()) > fillingBytes) return
    }
  }

  return {
    async watch(signal) {
      while (!signal.aborted) {
        try {
          const free = await parts.disk.freeBytes()
          const begun = performance.now()
          await lookAtAll(signal)
          await leaveOff(performance.now() - begun, free, signal)
        } catch (error) {
          parts.logger.warn({ err: error }, 'the disk could not be looked at')
          await sleepUntilAborted(pauses.calm.leastMs, signal)
        }
      }
    },
  }
}
