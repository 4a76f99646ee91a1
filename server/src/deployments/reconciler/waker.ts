import { sleepUntilAborted } from '../../platform/abort.ts'

/** Lets an event end a pause early. */
export interface Waker {
  /** Ends the pause that is under way, or the next one. */
  wake(): void
  /** Resolves after `ms` milliseconds, at `wake`, or when `signal` aborts. Returns true when it was woken. */
  pause(ms: number, signal: AbortSignal): Promise<boolean>
}

export function createWaker(): Waker {
  let woken = new AbortController()
  return {
    wake: () => woken.abort(),
    async pause(ms, signal) {
      await sleepUntilAborted(ms, AbortSignal.any([signal, woken.signal]))
      if (!woken.signal.aborted) return false
      woken = new AbortController()
      return true
    },
  }
}
