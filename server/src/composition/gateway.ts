import type { AppStore } from '../apps/apps.ts'
import type { AppsWork } from '../apps/index.ts'
import {
  connectGateway,
  type GatewayProcess,
  gatewayVersion,
  type RunAs,
  reachableGateway,
} from '../gateway/gateway.ts'
import type { Config } from '../platform/config.ts'
import { startPeriodic } from '../platform/periodic.ts'
import { findProgram } from '../platform/programs.ts'
import { finishTimeoutMs } from '../platform/shutdown.ts'
import { gatewayUser } from '../platform/state.ts'
import type { Composition } from './composition.ts'
import { listenError } from './listen.ts'

const countTrafficEveryMs = 2_000

/**
 * Prepares the user of the gateway; `null` where the gateway runs as the user of the server. `setpriv` is required,
 * because the gateway must give up root rights before its program begins.
 */
export async function composeGatewayUser({ config, state, logger }: Composition): Promise<RunAs | null> {
  const user = gatewayUser(config)
  if (user === null) return null
  const setpriv = await findProgram('setpriv', config.path)
  if (setpriv === null) {
    logger.warn('the gateway runs as root: install setpriv (util-linux)')
    return null
  }
  const program = await reachableGateway({ runtime: state.directory.runtime, user, version: await gatewayVersion() })
  const lowest = config.apps.mode === 'ports' ? config.apps.ports.from : config.apps.gatewayPort
  return { user, setpriv, hasLowPorts: lowest < 1024, ...program }
}

/** Connects to the gateway as the leader of an epoch, and counts the traffic of the apps. */
export async function composeGateway(
  { config, logger, state, stack }: Composition,
  {
    countTraffic,
    epoch,
    runAs,
  }: {
    readonly countTraffic: AppsWork['countTraffic']
    readonly epoch: number
    readonly runAs: RunAs | null
  },
): Promise<GatewayProcess> {
  const apps =
    config.apps.mode === 'ports'
      ? ({ mode: 'ports' } as const)
      : ({ mode: 'hostnames', port: config.apps.gatewayPort, scheme: config.apps.scheme } as const)
  const gateway = await connectGateway({
    dataDirectory: state.directory.root,
    options: {
      version: await gatewayVersion(),
      host: config.host,
      apps,
      trustedProxies: config.trustedProxies,
      workers: config.gatewayWorkers,
      edge: config.edge && { hosts: [config.edge.dashboardHost], httpsPort: config.edge.httpsPort },
      ...(runAs === null ? {} : { uid: runAs.user.uid }),
    },
    runAs,
    epoch,
    retireMs: config.deploys.drainMs,
    log: logger,
  })
  const count = async () => countTraffic(await gateway.takeTraffic())
  const counting = startPeriodic({ name: 'counting the traffic', everyMs: countTrafficEveryMs, work: count, logger })
  stack.defer('gateway', async (scope) => {
    try {
      if (scope === 'all') await gateway.stop({ timeoutMs: finishTimeoutMs })
      await counting.stop()
      // Count the requests that the gateway has finished since the last count.
      await count()
    } finally {
      await counting.stop()
      gateway.leave()
    }
  })
  // In ports mode, the gateway starts with the first app.
  if (apps.mode === 'hostnames')
    await gateway.listen().catch((error: NodeJS.ErrnoException) => {
      throw listenError(error, config.host, sharedPort(config), 'FAIRLEAD_GATEWAY_PORT')
    })
  return gateway
}

/** Closes gateway entries of deleted apps that an earlier server has left open. */
export async function closeForgottenApps(gateway: GatewayProcess, apps: Pick<AppStore, 'list'>): Promise<void> {
  const known = new Set((await apps.list()).map(({ id }) => id))
  const forgotten = gateway.apps().filter(({ appId }) => !known.has(appId))
  await Promise.all(forgotten.map(({ appId }) => gateway.close(appId)))
}

/** Returns the local listener of the gateway for an app. */
export function listenerOf(config: Config, address: { readonly port: number } | { readonly hostname: string }) {
  return { host: reachableHost(config.host), port: 'port' in address ? address.port : sharedPort(config) }
}

/** Returns the port that apps share in hostnames mode. */
function sharedPort(config: Config): number {
  return config.apps.mode === 'hostnames' ? config.apps.gatewayPort : 0
}

/** Returns an address that reaches a listener on `host` from this machine. */
function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  return host === '::' ? '::1' : host
}
