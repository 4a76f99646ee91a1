import { createClient, type GatewayClient } from './client.ts'
import { createKnown } from './desired.ts'
import { createLink, type LinkOptions } from './link.ts'
import { gatewayHome } from './place.ts'

export { programVersion as gatewayVersion, type RunAs, reachableGateway } from './launch.ts'
export { edgeSockets } from './place.ts'

export interface GatewayOptions extends Omit<LinkOptions, 'home' | 'known'> {
  readonly dataDirectory: string
}

/** A gateway in a process of its own that outlives the server. */
export interface GatewayProcess extends GatewayClient {
  /** Ends the connection to the gateway, which goes on with its last routes. Use `stop` to end the gateway too. */
  leave(): void
  /** Returns in a sentence that the gateway, or one of its processes, does not answer; undefined while all do. */
  problem(): string | undefined
}

/**
 * Connects to the gateway of the data directory if one runs, and knows its apps and routes then. Otherwise one is started
 * by the first `open` or `listen`. When it ends, another one is started at once, with the same listeners and routes.
 */
export async function connectGateway({ dataDirectory, ...options }: GatewayOptions): Promise<GatewayProcess> {
  const known = createKnown()
  const link = createLink({ ...options, home: gatewayHome(dataDirectory), known })
  await link.adopt()
  const { call, onRefused, onUncertified, leave, problem } = link
  return { ...createClient({ call, onRefused, onUncertified, known }), leave, problem }
}
