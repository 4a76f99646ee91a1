import { createClient, type GatewayClient } from './client.ts'
import { createChannel } from './control/channel.ts'
import { createEngine, type EngineOptions } from './engine/engine.ts'
import { serveCalls } from './engine/serve-calls.ts'

/**
 * Creates a gateway whose engine runs in this process. Client and engine share nothing but the channel between them.
 * `listen()` opens the shared port; where every app has its own, there is nothing to open.
 */
export function createGateway(options: EngineOptions): GatewayClient {
  const channel = createChannel()
  serveCalls(channel.engine, createEngine(options, channel.engine.post))
  return createClient(channel.client)
}
