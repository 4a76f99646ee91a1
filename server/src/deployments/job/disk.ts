import { statfs } from 'node:fs/promises'
import { ApiError } from '../../contract/errors.ts'
import type { DeploymentStage } from '../../contract/resources/deployments.ts'
import { sizeOf } from '../../platform/disk/tree-size.ts'
import { DeploymentError } from '../state/failure.ts'

/** Keeps deployments from filling the disk that everything lies on. */
export interface Disk {
  freeBytes(): Promise<number>
  /** Throws `server_error` when what is free is below the reserve. */
  assertRoom(): Promise<void>
  /**
   * Runs a step that writes into a folder, and ends it when that grows beyond what it may take or the disk is nearly
   * full. Rejects with a `DeploymentError`: `too_large` or `no_space`.
   */
  hold<T>(limit: Held, signal: AbortSignal, step: (held: AbortSignal) => Promise<T>): Promise<T>
}

export interface Held {
  readonly stage: 'fetch' | 'build'
  readonly mostBytes: number
  /** What is in these counts. */
  readonly folders: readonly string[]
  /** Of these, which were there before, counts what comes from now on. */
  readonly growing: readonly string[]
}

/** A fast disk takes a gigabyte in this time, which the reserve must outlast. */
const intervalMs = 500
/** A large tree takes long to look at; looking must not take more than a tenth of the time. */
const pauseFactor = 10

export function createDisk(options: { readonly directory: string; readonly reserveBytes: number }): Disk {
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

    async hold({ stage, folders, mostBytes, growing }, signal, step) {
      const stop = new AbortController()
      const ended = new AbortController()
      const assertFree = async (): Promise<void> => {
        if ((await freeBytes()) < reserveBytes) throw noSpace(stage)
      }
      await assertFree()
      const before = await sizeOf(growing)
      const check = async (): Promise<void> => {
        await assertFree()
        const bytes = (await sizeOf([...folders, ...growing], mostBytes + before)) - before
        // No number at all when even before it could not be told.
        if (!(bytes <= mostBytes)) throw tooLarge(stage, mostBytes)
      }
      const watch = async (): Promise<void> => {
        let tookMs = 0
        for (;;) {
          await pause(Math.max(intervalMs, pauseFactor * tookMs), ended.signal)
          if (ended.signal.aborted) return
          const begun = performance.now()
          await check().catch((error: unknown) => {
            if (error instanceof DeploymentError) stop.abort(error)
          })
          tookMs = performance.now() - begun
        }
      }
      const watching = watch()
      try {
        const done = await step(AbortSignal.any([signal, stop.signal]))
        await check()
        return done
      } catch (error) {
        throw stop.signal.aborted && !signal.aborted ? stop.signal.reason : error
      } finally {
        ended.abort()
        await watching
      }
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

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) return done()
    const finish = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', finish)
      done()
    }
    const timer = setTimeout(finish, ms)
    signal.addEventListener('abort', finish)
  })
}
