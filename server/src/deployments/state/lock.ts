import { createKeyedLock } from '../../platform/keyed-lock.ts'
import type { Wish } from './store.ts'

/**
 * Who works on a release: one at a time, so that none starts processes that another is ending. Work can be told to
 * leave off, because its deployment is wanted in another way now: it stops as quickly as it can and looks again.
 */
export interface Work {
  /**
   * Runs when all earlier work on this deployment has ended. `turn.signal` aborts with `outer`, or with `Interrupted`
   * for work that was asked for before `interrupt` was called.
   */
  run<T>(deploymentId: string, work: (turn: Turn) => Promise<T>, outer?: AbortSignal): Promise<T>
  /**
   * What is under way for the deployment leaves off, but for what works for a later wish than this one. It is called
   * once a change holds, and the job that the change has added may be at work by then.
   */
  interrupt(wish: Wish): void
  /** Whether anybody works on it or waits to do so. */
  isBusy(deploymentId: string): boolean
}

/** The time in which one works on a release. */
export interface Turn {
  readonly signal: AbortSignal
  /** Names the wish that the work is for, once it is known. Work for none in particular is interrupted by any. */
  worksFor(wish: Wish): void
}

/** The reason of a signal that asks to look again. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

interface UnderWay {
  readonly controller: AbortController
  intent: number
}

/** Less than that of any wish. */
const noIntent = 0

export function createWork(): Work {
  const lock = createKeyedLock()
  const underWay = new Map<string, Set<UnderWay>>()

  return {
    async run(id, work, outer) {
      const mine: UnderWay = { controller: new AbortController(), intent: noIntent }
      const { signal } = mine.controller
      const turn: Turn = {
        signal: outer === undefined ? signal : AbortSignal.any([outer, signal]),
        worksFor: ({ intent }) => {
          mine.intent = intent
        },
      }
      const all = underWay.get(id) ?? new Set()
      underWay.set(id, all.add(mine))
      try {
        return await lock(id, () => work(turn))
      } finally {
        all.delete(mine)
        if (all.size === 0) underWay.delete(id)
      }
    },
    interrupt(wish) {
      for (const { intent, controller } of underWay.get(wish.id) ?? []) {
        if (intent <= wish.intent) controller.abort(new Interrupted('wanted in another way now'))
      }
    },
    isBusy: (id) => underWay.has(id),
  }
}

/** Whether it was `interrupt` that aborted the signal. */
export function isInterrupted(signal: AbortSignal): boolean {
  return signal.aborted && signal.reason instanceof Interrupted
}
