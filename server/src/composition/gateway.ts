import type { Traffic } from '../apps/traffic.ts'
import type { Gateway } from '../gateway/client.ts'
import { createGateway } from '../gateway/gateway.ts'
import type { Config } from '../platform/config.ts'
import { startPeriodic } from '../platform/periodic.ts'
import { type Composition, finishTimeoutMs, proxyRule } from './composition.ts'
import { listenError } from './listen.ts'

const countTrafficEveryMs = 2_000

/** Starts the gateway, and adds its counts to the traffic of the apps. */
export async function composeGateway(
  { config, logger, stack }: Composition,
  traffic: Pick<Traffic, 'add'>,
): Promise<Gateway> {
  const apps =
    config.apps.mode === 'ports'
      ? ({ mode: 'ports' } as const)
      : ({ mode: 'hostnames', port: config.apps.gatewayPort, scheme: config.apps.scheme } as const)
  const gateway = createGateway({ log: logger, host: config.host, apps, isTrustedProxy: proxyRule(config) })
  const count = async () => traffic.add(await gateway.takeTraffic())
  const counting = startPeriodic({ name: 'counting the traffic', everyMs: countTrafficEveryMs, work: count, logger })
  stack.defer('gateway', async () => {
    await gateway.stop({ timeoutMs: finishTimeoutMs })
    await counting.stop()
    // Counts the requests that the gateway still finished.
    await count()
  })
  await gateway.listen().catch((error: NodeJS.ErrnoException) => {
    throw listenError(error, config.host, sharedPort(config), 'FAIRLEAD_GATEWAY_PORT')
  })
  return gateway
}

/** Returns where the gateway answers for an app on this machine. */
export function listenerOf(config: Config, address: { readonly port: number } | { readonly hostname: string }) {
  return { host: reachableHost(config.host), port: 'port' in address ? address.port : sharedPort(config) }
}

/** The port of apps that are told apart by their host names. */
function sharedPort(config: Config): number {
  return config.apps.mode === 'hostnames' ? config.apps.gatewayPort : 0
}

/** Returns an address that leads to a listener on `host` from this machine. */
function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  return host === '::' ? '::1' : host
}
