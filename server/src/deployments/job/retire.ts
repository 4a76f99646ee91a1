import type { Background } from '../../platform/background.ts'
import type { DeploymentLocks } from '../lock.ts'
import type { Prune } from './prune.ts'
import type { SwitchDependencies } from './switch-over.ts'
import type { Teardown } from './teardown.ts'

/**
 * Lets the release that was replaced finish its requests and tears it down, in the background; then removes the oldest
 * releases. A server that dies in between finds the rest at its next start.
 */
export function createRetire(dependencies: {
  readonly locks: Pick<DeploymentLocks, 'interrupt'>
  readonly teardown: Teardown
  readonly prune: Prune
  readonly background: Background
}): SwitchDependencies['retire'] {
  const { locks, teardown, prune, background } = dependencies
  return (app, previous, replaced) => {
    const retire = async () => {
      if (previous !== undefined) {
        locks.interrupt(previous)
        await teardown(previous, { replaced })
      }
      await prune(app.id)
    }
    background.add(retire(), { app: app.id, what: 'retiring a release' })
  }
}
