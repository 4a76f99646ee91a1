import type { DeploymentStage } from '../../contract/resources/deployments.ts'
import { sleepUntilAborted } from '../../platform/abort.ts'
import { freeBytesIn } from '../../platform/disk/free-space.ts'
import { DeploymentError } from '../state/failure.ts'

/** Keeps deployments from filling the disk that the whole server works on. */
export interface DiskGuard {
  /**
   * Runs a step that writes to the disk, and ends it when it writes more than it may or the disk is nearly full. Rejects
   * with a `DeploymentError`: `too_large` or `no_space`.
   */
  guard<T>(limit: DiskLimit, signal: AbortSignal, step: (guarded: AbortSignal) => Promise<T>): Promise<Guarded<T>>
}

/** The result of a step, which is there before all that it wrote is measured. */
export interface Guarded<T> {
  readonly value: T
  /** Measures that; rejects as `guard` does. To be called once; nothing may go live before it has resolved. */
  readonly fits: () => Promise<void>
}

export interface DiskLimit {
  readonly stage: 'fetch' | 'build'
  readonly mostBytes: number
  /** As `ReleaseStore.freeElsewhere` of the runtime whose disk the step writes to. */
  readonly freeElsewhere?: (() => Promise<number | null>) | undefined
  /** Bytes that exist before the step and do not count. */
  baseline(): Promise<number>
  /** Returns all bytes that exist now; some number above `enough` as soon as there are more. */
  measure(enough: number): Promise<number>
}

/** The time between two looks at the free space. A fast disk takes a gigabyte in it, which the reserve must outlast. */
const freeEveryMs = 500
/** The least time between two measurements of what a step wrote. Each takes processor time that apps may need. */
const measureEveryMs = 2_000
/** Measuring a large tree takes long; it must not take more than a tenth of the time. */
const pauseFactor = 10

export function createDiskGuard(options: { readonly directory: string; readonly reserveBytes: number }): DiskGuard {
  const { directory, reserveBytes } = options

  return {
    async guard(limit, signal, step) {
      const assertFree = async (): Promise<void> => {
        const elsewhere = (await limit.freeElsewhere?.()) ?? Number.POSITIVE_INFINITY
        if (Math.min(await freeBytesIn(directory), elsewhere) < reserveBytes) throw noSpace(limit.stage)
      }
      await assertFree()
      const baseline = await limit.baseline()
      const assertFits = async (): Promise<void> => {
        const bytes = (await limit.measure(limit.mostBytes + baseline)) - baseline
        // Infinity − Infinity is NaN when a folder was unreadable: that counts as too large.
        if (!(bytes <= limit.mostBytes)) throw tooLarge(limit.stage, limit.mostBytes)
      }
      const watch = watchWith({ assertFree, assertFits })
      try {
        const value = await step(AbortSignal.any([signal, watch.exceeded]))
        const ended = watch.end()
        return { value, fits: () => ended.then(assertFree).then(assertFits) }
      } catch (error) {
        await watch.end()
        throw watch.exceeded.aborted && !signal.aborted ? watch.exceeded.reason : error
      }
    },
  }
}

interface Checks {
  readonly assertFree: () => Promise<void>
  readonly assertFits: () => Promise<void>
}

/** Runs the checks again and again. `exceeded` aborts with the `DeploymentError` that one throws. */
function watchWith({ assertFree, assertFits }: Checks): { readonly exceeded: AbortSignal; end(): Promise<void> } {
  const exceeded = new AbortController()
  const ended = new AbortController()
  const check = (assert: () => Promise<void>): Promise<void> =>
    assert().catch((error: unknown) => {
      if (error instanceof DeploymentError) exceeded.abort(error)
    })
  const watching = (async () => {
    let measureAt = performance.now() + measureEveryMs
    for (;;) {
      await sleepUntilAborted(freeEveryMs, ended.signal)
      if (ended.signal.aborted) return
      await check(assertFree)
      const begun = performance.now()
      if (begun < measureAt) continue
      await check(assertFits)
      const now = performance.now()
      measureAt = now + Math.max(measureEveryMs, pauseFactor * (now - begun))
    }
  })()
  return {
    exceeded: exceeded.signal,
    async end() {
      ended.abort()
      await watching
    },
  }
}

function noSpace(stage: DeploymentStage): DeploymentError {
  const message = 'The disk of the server is nearly full. Tell its operator, and deploy again when there is room.'
  return new DeploymentError(stage, 'no_space', message)
}

export function tooLarge(stage: 'fetch' | 'build' | 'run', mostBytes: number): DeploymentError {
  const megabytes = `${mostBytes / 1_000_000} MB`
  const messages = {
    fetch: `The files of the commit would take more than the ${megabytes} on the disk that are allowed.`,
    build: `The release with what its build wrote would take more than the ${megabytes} on the disk that are allowed.`,
    run: `The app was stopped: with its release, HOME, TMPDIR and volumes it took more than the ${megabytes} on the disk that it may. Let it keep less, or give the project a larger plan. HOME, TMPDIR and volumes stay from release to release; the build of another one can empty them.`,
  }
  return new DeploymentError(stage, 'too_large', messages[stage])
}
