import type { Handle } from '../../runtimes/runtime.ts'
import type { InstanceControl } from '../job/instances.ts'

/** Remembers which instances have ended. Runtimes push that, so `isAlive` costs nothing. */
export interface Liveness {
  /** True until the runtime has reported the end of the deployment's instance. The first call begins to watch it. */
  isAlive(deploymentId: string, instance: Handle): boolean
  /** Ends the watches of all deployments but these. */
  keepOnly(deploymentIds: ReadonlySet<string>): void
}

interface Watched {
  readonly handle: string
  hasEnded: boolean
  stop(): void
}

/** @param onExit called when a watched instance has ended */
export function createLiveness(instances: Pick<InstanceControl, 'watch'>, onExit: () => void): Liveness {
  const watched = new Map<string, Watched>()

  const watch = (deploymentId: string, instance: Handle, handle: string): Watched => {
    watched.get(deploymentId)?.stop()
    const entry: Watched = { handle, hasEnded: false, stop: () => undefined }
    watched.set(deploymentId, entry)
    entry.stop = instances.watch(instance, () => {
      entry.hasEnded = true
      onExit()
    })
    return entry
  }

  return {
    isAlive(deploymentId, instance) {
      const handle = JSON.stringify(instance)
      const known = watched.get(deploymentId)
      const entry = known?.handle === handle ? known : watch(deploymentId, instance, handle)
      return !entry.hasEnded
    },
    keepOnly(deploymentIds) {
      for (const [id, entry] of watched) {
        if (deploymentIds.has(id)) continue
        entry.stop()
        watched.delete(id)
      }
    },
  }
}
