import { createKeyedLock } from '../../platform/keyed-lock.ts'
import type { DeploymentGeneration } from './tables.ts'

/**
 * One lock for each deployment: only its holder starts, ends or removes anything of the release. A change by the owner
 * interrupts the holder, which ends what it began as quickly as it can and reads the row again.
 */
export interface DeploymentLocks {
  /**
   * Runs `work` when all earlier holders have ended. `held.signal` aborts with `outer`, or with `Interrupted` when
   * `interrupt` is called after `run`.
   */
  run<T>(deploymentId: string, work: (held: HeldLock) => Promise<T>, outer?: AbortSignal): Promise<T>
  /**
   * Aborts what holds or awaits the lock for this generation or an older one. Called after the change was committed, when
   * the job that it added may already be running: that job is for a later generation and continues. When this generation has
   * come to rest, what uses its release at rest continues, too: word of the end may come late.
   */
  interrupt(target: DeploymentGeneration & { readonly isAtRest?: boolean }): void
  /** True while the lock is held or waited for. */
  isHeld(deploymentId: string): boolean
  /** Counts the holders that have ended: what a row says may have changed with each. */
  ended(): number
  /** The generations that holders work for, of those that have named one. */
  held(): DeploymentGeneration[]
}

export interface HeldLock {
  readonly signal: AbortSignal
  /**
   * Names the generation that the holder works for, once it is known. Before that, any interruption counts.
   *
   * @param target.isAtRest true for a holder that uses the release after this generation has ended
   */
  setGeneration(target: DeploymentGeneration & { readonly isAtRest?: boolean }): void
}

/** The reason of a signal that asks its holder to read the row again. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

interface Holder {
  readonly controller: AbortController
  generation: number
  isAtRest: boolean
}

/** Lower than every generation. */
const noGeneration = 0

export function createDeploymentLocks(): DeploymentLocks {
  const lock = createKeyedLock()
  const holders = new Map<string, Set<Holder>>()
  let ended = 0

  return {
    async run(id, work, outer) {
      const own: Holder = { controller: new AbortController(), generation: noGeneration, isAtRest: false }
      const { signal } = own.controller
      const held: HeldLock = {
        signal: outer === undefined ? signal : AbortSignal.any([outer, signal]),
        setGeneration: ({ generation, isAtRest = false }) => Object.assign(own, { generation, isAtRest }),
      }
      const all = holders.get(id) ?? new Set()
      holders.set(id, all.add(own))
      try {
        return await lock(id, () => work(held))
      } finally {
        ended += 1
        all.delete(own)
        if (all.size === 0) holders.delete(id)
      }
    },
    interrupt(target) {
      for (const { generation, isAtRest, controller } of holders.get(target.id) ?? []) {
        if (isAtRest && target.isAtRest === true && generation === target.generation) continue
        if (generation <= target.generation) controller.abort(new Interrupted('a later request was accepted'))
      }
    },
    isHeld: (id) => holders.has(id),
    ended: () => ended,
    held: () =>
      [...holders].flatMap(([id, all]) =>
        [...all].flatMap(({ generation }) => (generation === noGeneration ? [] : [{ id, generation }])),
      ),
  }
}

/** True when `interrupt` aborted the signal. */
export function isInterrupted(signal: AbortSignal): boolean {
  return signal.aborted && signal.reason instanceof Interrupted
}
