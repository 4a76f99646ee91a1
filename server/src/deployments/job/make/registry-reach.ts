import { type Outbound, OutboundError } from '../../../platform/outbound.ts'
import { DeploymentError } from '../../failure.ts'

/** Docker Hub, whose hosts the engine knows, and for which an operator may have set a mirror. */
const hub = 'docker.io'

/**
 * Makes the function that throws a `DeploymentError` for a registry whose host leads to an address that tenants may not reach
 * through this server. It is the engine that connects later, and resolves the name again: the check keeps names of the
 * machine and of private networks from it, but not the owner of a name server who answers in two ways.
 */
export function createRegistryReach(outbound: Pick<Outbound, 'mode' | 'resolve'>): (registry: string) => Promise<void> {
  return async (registry) => {
    if (outbound.mode === 'any' || registry === hub) return
    const [host = ''] = registry.split(':')
    await outbound.resolve(host).catch((error: unknown) => {
      if (error instanceof OutboundError) throw new DeploymentError('fetch', error.code, error.message)
      const message = `The host of the registry ${registry} cannot be found. Check the name of the image.`
      throw new DeploymentError('fetch', 'registry_unreachable', message)
    })
  }
}
