import type { DeploymentStage } from '../../contract/deployments.ts'
import { sleepUntilAborted } from '../../platform/abort.ts'
import { freeBytesIn } from '../../platform/disk/free-space.ts'
import { DeploymentError } from './failure.ts'

export interface DiskGuard {
  /**
   * Runs a step that writes to the disk, and ends it when it exceeds its limit or the disk is nearly full. Rejects with
   * a `DeploymentError`: `too_large` or `no_space`.
   */
  guard<T>(limit: DiskLimit, signal: AbortSignal, step: (guarded: AbortSignal) => Promise<T>): Promise<Unmeasured<T>>
}

export interface Unmeasured<T> {
  readonly value: T
  /** Measures the step's files, and rejects like `guard`. Call it once; nothing may go live before it resolves. */
  readonly withinLimit: () => Promise<void>
}

export interface DiskLimit {
  readonly stage: 'fetch' | 'build'
  readonly mostBytes: number
  /** Like `ReleaseStore.freeElsewhere` of the runtime whose disk the step writes to. */
  readonly freeElsewhere?: (() => Promise<number | null>) | undefined
  baseline(): Promise<number>
  /** Returns the present bytes; any number above `enough` as soon as there are more. */
  measure(enough: number): Promise<number>
}

/**
 * The interval at which the free space is read. A fast disk writes a gigabyte in this time; the reserve must be larger.
 */
const freeEveryMs = 500

export function createDiskGuard(options: { readonly directory: string; readonly reserveBytes: number }): DiskGuard {
  const { directory, reserveBytes } = options

  return {
    async guard(limit, signal, step) {
      const checkFree = async (): Promise<number> => {
        const elsewhere = (await limit.freeElsewhere?.()) ?? null
        const here = await freeBytesIn(directory)
        if (Math.min(here, elsewhere ?? here) < reserveBytes) throw noSpace(limit.stage)
        // Both may be on one disk: then written bytes count twice, and are measured earlier.
        return here + (elsewhere ?? 0)
      }
      const freeBefore = await checkFree()
      const baseline = await limit.baseline()
      const checkSize = async (): Promise<number> => {
        const bytes = (await limit.measure(limit.mostBytes + baseline)) - baseline
        // When a folder was unreadable, Infinity − Infinity is NaN, which counts as too large.
        if (!(bytes <= limit.mostBytes)) throw tooLarge(limit.stage, limit.mostBytes)
        return limit.mostBytes - bytes
      }
      const watch = watchWith({ checkFree, checkSize }, { freeBytes: freeBefore, restBytes: limit.mostBytes })
      try {
        const value = await step(AbortSignal.any([signal, watch.exceeded]))
        const ended = watch.end()
        return { value, withinLimit: () => ended.then(checkFree).then(async () => void (await checkSize())) }
      } catch (error) {
        await watch.end()
        throw watch.exceeded.aborted && !signal.aborted ? watch.exceeded.reason : error
      }
    },
  }
}

interface Checks {
  readonly checkFree: () => Promise<number>
  /** Resolves with the bytes that the step may still write. */
  readonly checkSize: () => Promise<number>
}

function watchWith(
  { checkFree, checkSize }: Checks,
  { freeBytes, restBytes }: { readonly freeBytes: number; readonly restBytes: number },
): { readonly exceeded: AbortSignal; end(): Promise<void> } {
  const exceeded = new AbortController()
  const ended = new AbortController()
  const check = (run: () => Promise<number>): Promise<number | null> =>
    run().catch((error: unknown) => {
      if (error instanceof DeploymentError) exceeded.abort(error)
      return null
    })
  const watching = (async () => {
    let last: Measurement = { endedAt: performance.now(), tookMs: 0, restBytes }
    let mostFree = freeBytes
    for (;;) {
      await sleepUntilAborted(freeEveryMs, ended.signal)
      if (ended.signal.aborted) return
      const free = await check(checkFree)
      mostFree = Math.max(mostFree, free ?? 0)
      const begun = performance.now()
      // While the free space is unknown, it may have fallen by any amount.
      if (!measureIsDue(last, begun, mostFree - (free ?? Number.NEGATIVE_INFINITY))) continue
      const rest = await check(checkSize)
      const now = performance.now()
      last = { endedAt: now, tookMs: now - begun, restBytes: rest ?? 0 }
      mostFree = free ?? 0
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

/** The shortest pause between two measurements of a step's files. Each takes processor time that apps may need. */
const leastMs = 2_000
/**
 * The longest pause between two measurements. In between, the step can reach its limit only if the free space of the
 * disks falls by the bytes that the step had left.
 */
const longestMs = 10_000
/** Measuring a large tree takes long; it may use a tenth of the time. */
const pauseFactor = 10
/**
 * Other programs may free space at the same time, which hides growth. So the step is measured once the free space has
 * fallen by half of its remaining bytes.
 */
const shareOfRest = 0.5

interface Measurement {
  readonly endedAt: number
  readonly tookMs: number
  readonly restBytes: number
}

/**
 * True when the step must be measured again.
 *
 * @param last the previous measurement
 * @param fellBytes how far the free space has fallen since then, from its highest value
 */
export function measureIsDue({ endedAt, tookMs, restBytes }: Measurement, now: number, fellBytes: number): boolean {
  const passedMs = now - endedAt
  if (passedMs < Math.max(leastMs, pauseFactor * tookMs)) return false
  return passedMs >= longestMs || fellBytes >= restBytes * shareOfRest
}
