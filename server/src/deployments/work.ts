import { createKeyedLock } from '../platform/keyed-lock.ts'

/**
 * Who works on a release: one at a time, so that none starts processes that another is ending. Work can be told to
 * leave off, because its deployment is wanted in another way now: it stops as quickly as it can and looks again.
 */
export interface Work {
  /**
   * Runs when all earlier work on this deployment has ended. `signal` aborts with `outer`, or with `Interrupted` for
   * work that was asked for before `interrupt` was called.
   */
  run<T>(deploymentId: string, work: (signal: AbortSignal) => Promise<T>, outer?: AbortSignal): Promise<T>
  interrupt(deploymentId: string): void
  /** Whether anybody works on it or waits to do so. */
  isBusy(deploymentId: string): boolean
}

/** The reason of a signal that asks to look again. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

export function createWork(): Work {
  const lock = createKeyedLock()
  const underWay = new Map<string, Set<AbortController>>()

  return {
    async run(id, work, outer) {
      const controller = new AbortController()
      const others = underWay.get(id) ?? new Set()
      underWay.set(id, others.add(controller))
      try {
        return await lock(id, () =>
          work(outer === undefined ? controller.signal : AbortSignal.any([outer, controller.signal])),
        )
      } finally {
        others.delete(controller)
        if (others.size === 0) underWay.delete(id)
      }
    },
    interrupt(id) {
      for (const controller of underWay.get(id) ?? []) controller.abort(new Interrupted('wanted in another way now'))
    },
    isBusy: (id) => underWay.has(id),
  }
}

/** Whether it was `interrupt` that aborted the signal. */
export function isInterrupted(signal: AbortSignal): boolean {
  return signal.aborted && signal.reason instanceof Interrupted
}
