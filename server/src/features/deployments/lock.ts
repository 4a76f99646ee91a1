import { createKeyedLock } from '../../platform/keyed-lock.ts'
import { createSlots } from '../../platform/slots.ts'
import type { DeploymentGeneration } from './tables.ts'

/**
 * One lock for each deployment: only its holder starts, ends or removes parts of the release. A change by the owner
 * interrupts the holder, which undoes its step as quickly as it can and reads the row again.
 */
export interface DeploymentLocks {
  /**
   * Runs `work` when all earlier holders have ended. `held.signal` aborts with `outer`, or with `Interrupted` when
   * `interrupt` is called after `run`.
   */
  run<T>(deploymentId: string, work: (held: HeldLock) => Promise<T>, outer?: AbortSignal): Promise<T>
  /**
   * Like `run`, but several callers of `share` hold the lock together, and their `work` functions run one after the
   * other. A promise that is given to `holdUntil` keeps the lock without delaying the other callers: use it for long
   * waits, such as the start of an app.
   */
  share<T>(deploymentId: string, work: (held: SharedLock) => Promise<T>, outer?: AbortSignal): Promise<T>
  /**
   * Aborts holders of the lock, and callers that wait for it, for this generation or an older one. Call it after the
   * change is committed: the job that the change added is for a later generation, may already be running, and
   * continues. So does a command that uses a stopped release, if this generation has ended (`hasEnded`): it may have
   * begun before the notification of the end.
   */
  interrupt(target: DeploymentGeneration & { readonly hasEnded?: boolean }): void
  /** True while the lock is held or awaited. */
  isHeld(deploymentId: string): boolean
  /** Like `isHeld`, but ignores callers that share the lock. */
  isTaken(deploymentId: string): boolean
  /** Counts the holders that have ended: each may have changed the row. */
  ended(): number
  held(): DeploymentGeneration[]
}

export interface HeldLock {
  readonly signal: AbortSignal
  /**
   * Names the generation that the holder works for, once it is known. Until then, every interruption counts.
   *
   * @param target.hasEnded true for a holder that uses the release after the end of this generation
   */
  setGeneration(target: DeploymentGeneration & { readonly hasEnded?: boolean }): void
}

export interface SharedLock extends HeldLock {
  holdUntil<T>(going: Promise<T>): Promise<T>
}

/** The reason of a signal that asks its holder to read the row again. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

interface Holder {
  readonly controller: AbortController
  generation: number
  hasEnded: boolean
  readonly isSharing: boolean
}

interface Group {
  users: number
  /** Resolves when the group holds the lock. */
  readonly begun: Promise<void>
  turn<T>(work: () => Promise<T>): Promise<T>
  readonly end: () => void
}

const noGeneration = 0

export function createDeploymentLocks(): DeploymentLocks {
  const lock = createKeyedLock()
  const holders = new Map<string, Set<Holder>>()
  /** The groups that can still be joined. A group leaves this map as soon as a caller of `run` waits for its end. */
  const groups = new Map<string, Group>()
  let ended = 0

  const enter = (id: string, isSharing: boolean, outer?: AbortSignal): { held: HeldLock; leave: () => void } => {
    const own: Holder = { controller: new AbortController(), generation: noGeneration, hasEnded: false, isSharing }
    const { signal } = own.controller
    const all = holders.get(id) ?? new Set()
    holders.set(id, all.add(own))
    return {
      held: {
        signal: outer === undefined ? signal : AbortSignal.any([outer, signal]),
        setGeneration: ({ generation, hasEnded = false }) => Object.assign(own, { generation, hasEnded }),
      },
      leave: () => {
        ended += 1
        all.delete(own)
        if (all.size === 0) holders.delete(id)
      },
    }
  }
  const begin = (id: string): Group => {
    const begun = Promise.withResolvers<void>()
    const left = Promise.withResolvers<void>()
    const turns = createSlots(1)
    void lock(id, async () => {
      begun.resolve()
      await left.promise
    })
    return {
      users: 0,
      begun: begun.promise,
      turn: (work) => turns.use(id, undefined, work),
      end: left.resolve,
    }
  }

  return {
    async run(id, work, outer) {
      const { held, leave } = enter(id, false, outer)
      groups.delete(id)
      try {
        return await lock(id, () => work(held))
      } finally {
        leave()
      }
    },
    async share(id, work, outer) {
      const { held, leave } = enter(id, true, outer)
      const group = groups.get(id) ?? begin(id)
      groups.set(id, group)
      group.users += 1
      let going = 1
      const done = () => {
        going -= 1
        if (going > 0) return
        leave()
        group.users -= 1
        if (group.users > 0) return
        if (groups.get(id) === group) groups.delete(id)
        group.end()
      }
      try {
        await group.begun
        return await group.turn(() =>
          work({
            ...held,
            holdUntil(promise) {
              going += 1
              promise.then(done, done)
              return promise
            },
          }),
        )
      } finally {
        done()
      }
    },
    interrupt(target) {
      for (const { generation, hasEnded, controller } of holders.get(target.id) ?? []) {
        if (hasEnded && target.hasEnded === true && generation === target.generation) continue
        if (generation <= target.generation) controller.abort(new Interrupted('a later request was accepted'))
      }
    },
    isHeld: (id) => holders.has(id),
    isTaken: (id) => [...(holders.get(id) ?? [])].some(({ isSharing }) => !isSharing),
    ended: () => ended,
    held: () =>
      [...holders].flatMap(([id, all]) =>
        [...all].flatMap(({ generation }) => (generation === noGeneration ? [] : [{ id, generation }])),
      ),
  }
}

export function isInterrupted(signal: AbortSignal): boolean {
  return signal.aborted && signal.reason instanceof Interrupted
}
