import { killAll } from '../../platform/processes.ts'
import type { ExitWatch } from './exit-watch.ts'
import { endNetwork } from './network/pasta-networks.ts'
import type { LocalInstance } from './release/local-instance.ts'

/**
 * Ends the network of an instance when the instance has ended, and the other way round: nothing reaches an app without its
 * network, and it is started again when it has ended. Does nothing for a network that no process holds. Returns the instance.
 */
export function tieToNetwork(instance: LocalInstance, exits: ExitWatch, fence: () => void): LocalInstance {
  const { holder } = instance
  if (holder === undefined) return instance
  exits.add(instance, () => endNetwork(holder))
  exits.add(holder, () => {
    // A server that has been replaced must end nothing; the one that leads has the same watch.
    killAll({ leaders: [instance] }, { graceMs: 0, fence }).catch(() => undefined)
  })
  return instance
}
