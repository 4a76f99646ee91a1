import { createClient, type GatewayClient } from './client.ts'
import { createDesiredState } from './desired.ts'
import { createLink, type LinkOptions } from './link.ts'
import { gatewayHome } from './place.ts'

export type { RunAs } from './launch.ts'
export { edgeSockets } from './place.ts'

export interface GatewayOptions extends Omit<LinkOptions, 'home' | 'desired'> {
  readonly dataDirectory: string
}

/** A gateway in a separate process that outlives the server. */
export interface GatewayProcess extends GatewayClient {
  /** Closes the connection. The gateway continues with its last routes; `stop` ends it. */
  leave(): void
  /** Returns a sentence when the gateway, or one of its processes, does not answer; undefined while all answer. */
  problem(): string | undefined
}

/**
 * Connects to the running gateway of the data directory, and loads its apps and routes. Without one, the first `open`
 * or `listen` starts a gateway. A gateway that ends is started again at once, with the same listeners and routes.
 */
export async function connectGateway({ dataDirectory, ...options }: GatewayOptions): Promise<GatewayProcess> {
  const desired = createDesiredState()
  const link = createLink({ ...options, home: gatewayHome(dataDirectory), desired })
  await link.adopt()
  const { call, onRefused, onUncertified, leave, problem } = link
  return { ...createClient({ call, onRefused, onUncertified, desired }), leave, problem }
}
