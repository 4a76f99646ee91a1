import { createClient, type GatewayClient } from './client.ts'
import type { Call } from './control/calls.ts'
import { createRefusals } from './control/refusals.ts'
import { createEngine, type EngineOptions } from './engine/engine.ts'

/** Creates a gateway whose engine runs in this process. */
export function createGateway(options: Omit<EngineOptions, 'onRefused'>): GatewayClient {
  const { emit, onRefused } = createRefusals()
  const { handlers } = createEngine({ ...options, onRefused: emit })
  const call = ((name, parameters, signal = new AbortController().signal) =>
    (handlers[name] as (parameters: unknown, signal: AbortSignal) => Promise<never>)(parameters, signal)) as Call
  return createClient({
    call,
    onRefused,
    known: new Map(),
    host: options.host,
  })
}
