import { setTimeout as sleep } from 'node:timers/promises'
import { isAway } from './error.ts'

const pauseMs = 200

/**
 * Repeats a call for some time while the engine is away: it is for some seconds when it is started again, and nothing that it
 * runs has to end meanwhile. Only for calls that change nothing, or that may be repeated.
 */
export async function whenBack<T>(call: () => Promise<T>, waitMs: number, signal?: AbortSignal): Promise<T> {
  for (const deadline = performance.now() + waitMs; ; ) {
    try {
      return await call()
    } catch (error) {
      if (!isAway(error) || performance.now() > deadline) throw error
    }
    await sleep(pauseMs, undefined, signal === undefined ? {} : { signal })
  }
}
