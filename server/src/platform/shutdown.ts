import type { Logger } from './logger.ts'

/** The time that requests and jobs may take to end when the server stops, in milliseconds. */
export const finishTimeoutMs = 10_000

/** The longer time for uploads and downloads when only the server stops and apps go on, in milliseconds. */
export const finishTransfersMs = 300_000

/** `server`: only this process; the next server adopts apps, gateway and database clusters. `all`: these as well. */
export type StopScope = 'all' | 'server'

/** The parts that were started, so that they are stopped in reverse order. */
export interface ShutdownStack {
  readonly signal: AbortSignal
  defer(name: string, stop: (scope: StopScope) => Promise<void>): void
  /** Stops every part, the last started first. A part that fails to stop does not keep the others running. */
  unwind(scope: StopScope): Promise<void>
}

/** @param abort an outside signal that also aborts the signal of the stack, so that a start under way ends. */
export function createShutdownStack(logger: Logger, abort?: AbortSignal): ShutdownStack {
  const started: { name: string; stop: (scope: StopScope) => Promise<void> }[] = []
  const stopping = new AbortController()
  let unwinding: Promise<void> | undefined
  const unwind = async (scope: StopScope) => {
    stopping.abort(new Error('the server is stopping'))
    for (let next = started.pop(); next !== undefined; next = started.pop()) {
      try {
        await next.stop(scope)
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
    unwind(scope) {
      unwinding ??= unwind(scope)
      return unwinding
    },
  }
}

/** The reason of an `AbortSignal` that stops a server. */
export class StopRequest extends Error {
  override readonly name = 'StopRequest'
  readonly scope: StopScope

  constructor(scope: StopScope, message: string) {
    super(message)
    this.scope = scope
  }
}

export function scopeOf(signal: AbortSignal | undefined, otherwise: StopScope): StopScope {
  return signal?.reason instanceof StopRequest ? signal.reason.scope : otherwise
}
