import type { Logger } from '../logger.ts'

/** What was started and must be stopped, in the reverse order. */
export interface ReleaseStack {
  /** Aborts when the stop begins. */
  readonly signal: AbortSignal
  /** Registers how to stop something that was just started. */
  defer(name: string, release: () => Promise<void>): void
  /** Stops everything, the last started first. One that fails does not keep the others running. */
  unwind(): Promise<void>
}

/** @param abort a signal from outside that begins the stop of what runs meanwhile, too. */
export function createReleaseStack(logger: Logger, abort?: AbortSignal): ReleaseStack {
  const releases: { name: string; release: () => Promise<void> }[] = []
  const stopping = new AbortController()
  let unwinding: Promise<void> | undefined
  const unwind = async () => {
    stopping.abort(new Error('the server is stopping'))
    for (let next = releases.pop(); next !== undefined; next = releases.pop()) {
      try {
        await next.release()
      } catch (error) {
        logger.error({ err: error }, `${next.name} did not stop cleanly`)
      }
    }
  }
  return {
    signal: abort === undefined ? stopping.signal : AbortSignal.any([abort, stopping.signal]),
    defer(name, release) {
      releases.push({ name, release })
    },
    unwind() {
      unwinding ??= unwind()
      return unwinding
    },
  }
}
