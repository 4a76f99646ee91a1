import { statfs } from 'node:fs/promises'
import { ApiError } from '../../contract/errors.ts'
import type { DeploymentStage } from '../../contract/resources/deployments.ts'
import { sleepUntilAborted } from '../../platform/abort.ts'
import { DeploymentError } from '../state/failure.ts'

/** Keeps deployments from filling the disk that the whole server works on. */
export interface DiskGuard {
  freeBytes(): Promise<number>
  /** Throws `server_error` when less is free than the reserve. */
  assertRoom(): Promise<void>
  /**
   * Runs a step that writes to the disk, and ends it when it writes more than it may or the disk is nearly full. Rejects
   * with a `DeploymentError`: `too_large` or `no_space`.
   */
  guard<T>(limit: DiskLimit, signal: AbortSignal, step: (guarded: AbortSignal) => Promise<T>): Promise<T>
}

export interface DiskLimit {
  readonly stage: 'fetch' | 'build'
  readonly mostBytes: number
  /** Bytes that exist before the step and do not count. */
  baseline(): Promise<number>
  /** Returns all bytes that exist now; some number above `enough` as soon as there are more. */
  measure(enough: number): Promise<number>
}

/** A fast disk takes a gigabyte in this time, which the reserve must outlast. */
const intervalMs = 500
/** Measuring a large tree takes long; it must not take more than a tenth of the time. */
const pauseFactor = 10

export function createDiskGuard(options: { readonly directory: string; readonly reserveBytes: number }): DiskGuard {
  const { directory, reserveBytes } = options
  const freeBytes = async (): Promise<number> => {
    const { bavail, bsize } = await statfs(directory)
    return bavail * bsize
  }

  return {
    freeBytes,

    async assertRoom() {
      if ((await freeBytes()) >= reserveBytes) return
      throw new ApiError(
        'server_error',
        'The disk of the server is nearly full, so that it takes no deployments. Tell its operator.',
      )
    },

    async guard(limit, signal, step) {
      const assertFree = async (): Promise<void> => {
        if ((await freeBytes()) < reserveBytes) throw noSpace(limit.stage)
      }
      await assertFree()
      const baseline = await limit.baseline()
      const check = async (): Promise<void> => {
        await assertFree()
        const bytes = (await limit.measure(limit.mostBytes + baseline)) - baseline
        // Infinity − Infinity is NaN when a folder was unreadable: that counts as too large.
        if (!(bytes <= limit.mostBytes)) throw tooLarge(limit.stage, limit.mostBytes)
      }
      const watch = watchWith(check)
      try {
        const done = await step(AbortSignal.any([signal, watch.exceeded]))
        await check()
        return done
      } catch (error) {
        throw watch.exceeded.aborted && !signal.aborted ? watch.exceeded.reason : error
      } finally {
        await watch.end()
      }
    },
  }
}

/** Runs `check` again and again. `exceeded` aborts with the `DeploymentError` that it throws. */
function watchWith(check: () => Promise<void>): { readonly exceeded: AbortSignal; end(): Promise<void> } {
  const exceeded = new AbortController()
  const ended = new AbortController()
  const watching = (async () => {
    let tookMs = 0
    for (;;) {
      await sleepUntilAborted(Math.max(intervalMs, pauseFactor * tookMs), ended.signal)
      if (ended.signal.aborted) return
      const begun = performance.now()
      await check().catch((error: unknown) => {
        if (error instanceof DeploymentError) exceeded.abort(error)
      })
      tookMs = performance.now() - begun
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
    run: `The app was stopped: with its release, HOME and TMPDIR it took more than the ${megabytes} on the disk that it may. Let it keep less. HOME and TMPDIR stay from release to release; the build of another one can empty them.`,
  }
  return new DeploymentError(stage, 'too_large', messages[stage])
}
