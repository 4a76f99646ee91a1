import type { Logger } from '../logger.ts'

/** The parts that were started, so that they are stopped in reverse order. */
export interface ShutdownStack {
  /** Aborts when the shutdown begins. */
  readonly signal: AbortSignal
  /** Registers how to stop a part that was just started. */
  defer(name: string, stop: () => Promise<void>): void
  /** Stops every part, the last started first. A part that fails to stop does not keep the others running. */
  unwind(): Promise<void>
}

/** @param abort an outside signal that also aborts the signal of the stack, so that a start under way ends. */
export function createShutdownStack(logger: Logger, abort?: AbortSignal): ShutdownStack {
  const started: { name: string; stop: () => Promise<void> }[] = []
  const stopping = new AbortController()
  let unwinding: Promise<void> | undefined
  const unwind = async () => {
    stopping.abort(new Error('the server is stopping'))
    for (let next = started.pop(); next !== undefined; next = started.pop()) {
      try {
        await next.stop()
      } catch (error) {
        logger.error({ err: error }, `${next.name} did not stop cleanly`)
      }
    }
  }
  return {
    signal: abort === undefined ? stopping.signal : AbortSignal.any([abort, stopping.signal]),
    defer(name, stop) {
      started.push({ name, stop })
    },
    unwind() {
      unwinding ??= unwind()
      return unwinding
    },
  }
}
