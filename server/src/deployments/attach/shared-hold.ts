import type { DeploymentLocks } from '../state/lock.ts'

/** Several that hold the lock of one deployment together, because they change nothing of each other's. */
export interface SharedHold {
  /** Resolves when the lock is held. */
  join(deploymentId: string): Promise<{
    /** Aborts when a request needs the lock. */
    readonly signal: AbortSignal
    /** The last one that leaves gives the lock back. */
    readonly leave: () => void
  }>
}

interface Hold {
  users: number
  readonly left: PromiseWithResolvers<void>
  readonly begun: Promise<AbortSignal>
}

export function createSharedHold(locks: Pick<DeploymentLocks, 'run'>): SharedHold {
  const holds = new Map<string, Hold>()
  const begin = (deploymentId: string): Hold => {
    const begun = Promise.withResolvers<AbortSignal>()
    const left = Promise.withResolvers<void>()
    const held = locks.run(deploymentId, async ({ signal }) => {
      begun.resolve(signal)
      await left.promise
    })
    held.catch(begun.reject)
    return { users: 0, left, begun: begun.promise }
  }
  return {
    async join(deploymentId) {
      const hold = holds.get(deploymentId) ?? begin(deploymentId)
      holds.set(deploymentId, hold)
      hold.users += 1
      const leave = (): void => {
        hold.users -= 1
        if (hold.users > 0) return
        holds.delete(deploymentId)
        hold.left.resolve()
      }
      return { signal: await hold.begun, leave }
    },
  }
}
