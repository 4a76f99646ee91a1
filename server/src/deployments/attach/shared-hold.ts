import type { Teardown } from '../job/teardown.ts'
import type { DeploymentLocks } from '../state/lock.ts'
import type { DeploymentStore } from '../state/store.ts'
import type { DeploymentRow } from '../state/tables.ts'

/** Several that use the release of one deployment at rest, because they change nothing of each other's. */
export interface SharedHold {
  /** Resolves when the release is held; to null when it is not at rest or not kept. */
  join(deploymentId: string): Promise<Hold | null>
}

export interface Hold {
  readonly row: DeploymentRow
  /** Aborts when a request needs the release. */
  readonly signal: AbortSignal
  /** The last one that leaves gives the release back. */
  readonly leave: () => void
}

interface Held {
  users: number
  readonly left: PromiseWithResolvers<void>
  readonly begun: Promise<Pick<Hold, 'row' | 'signal'> | null>
}

export function createSharedHold(dependencies: {
  readonly store: { readonly rows: Pick<DeploymentStore['rows'], 'find'> }
  readonly locks: Pick<DeploymentLocks, 'run'>
  readonly teardown: Teardown
}): SharedHold {
  const holds = new Map<string, Held>()
  const forget = (deploymentId: string, held: Held): void => {
    if (holds.get(deploymentId) === held) holds.delete(deploymentId)
  }
  const begin = (deploymentId: string): Held => {
    const left = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<Awaited<Held['begun']>>()
    const held: Held = { users: 0, left, begun: begun.promise }
    const onBegun = (given: Awaited<Held['begun']>): void => {
      // The next one waits for the lock, after the request that ends this hold.
      given?.signal.addEventListener('abort', () => forget(deploymentId, held), { once: true })
      begun.resolve(given)
    }
    hold(dependencies, deploymentId, { onBegun, left: left.promise }).catch(begun.reject)
    return held
  }
  return {
    async join(deploymentId) {
      const held = holds.get(deploymentId) ?? begin(deploymentId)
      holds.set(deploymentId, held)
      held.users += 1
      const leave = (): void => {
        held.users -= 1
        if (held.users > 0) return
        forget(deploymentId, held)
        held.left.resolve()
      }
      try {
        const begun = await held.begun
        if (begun !== null) return { ...begun, leave }
      } catch (error) {
        leave()
        throw error
      }
      leave()
      return null
    },
  }
}

/** Holds the lock of a deployment at rest until `left` resolves. */
async function hold(
  { store, locks, teardown }: Parameters<typeof createSharedHold>[0],
  deploymentId: string,
  given: { readonly onBegun: (begun: Awaited<Held['begun']>) => void; readonly left: Promise<void> },
): Promise<void> {
  for (;;) {
    const next = await locks.run(deploymentId, async ({ signal, setGeneration }) => {
      const row = await store.rows.find(deploymentId)
      // The interruption may be older than the row.
      if (signal.aborted) return 'read again'
      if (row?.retained !== true || row.status === 'building' || row.status === 'running') {
        given.onBegun(null)
        return 'done'
      }
      // It was stopped a moment ago, and serves until word of it arrives.
      if (row.instance !== null) return row
      setGeneration({ ...row, isAtRest: true })
      given.onBegun({ row, signal })
      await given.left
      return 'done'
    })
    if (next === 'done') return
    if (next !== 'read again') await teardown(next)
  }
}
