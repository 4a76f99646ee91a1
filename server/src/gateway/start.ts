import type { Config } from '../platform/config.ts'
import type { DataDirectory } from '../platform/data-directory.ts'
import type { Logger } from '../platform/logger.ts'
import { startPeriodic } from '../platform/periodic.ts'
import { listenError } from '../platform/ports.ts'
import { findProgram } from '../platform/programs.ts'
import { finishTimeoutMs, type ShutdownStack } from '../platform/shutdown.ts'
import { gatewayUser } from '../platform/state.ts'
import type { AppTraffic } from './client.ts'
import { connectGateway, type GatewayProcess } from './gateway.ts'
import { programVersion, type RunAs, reachableGateway } from './launch.ts'
import { sharedPort } from './listener.ts'

const countTrafficEveryMs = 2_000

export interface GatewayParts {
  readonly config: Pick<
    Config,
    'apps' | 'dataDirectory' | 'deploys' | 'edge' | 'gatewayWorkers' | 'host' | 'path' | 'trustedProxies' | 'uids'
  >
  readonly directory: Pick<DataDirectory, 'root' | 'runtime'>
  readonly stack: ShutdownStack
  readonly logger: Logger
  readonly epoch: number
  /**
   * Adds the requests since the last call. The gateway reports a request once, so this function keeps what it cannot
   * write.
   */
  readonly countTraffic: (counted: readonly AppTraffic[]) => Promise<void>
}

export interface StartedGateway {
  readonly gateway: GatewayProcess
  readonly runAs: RunAs | null
}

/** Connects to the gateway as the leader of an epoch, and counts the traffic of the apps from then on. */
export async function startGateway(parts: GatewayParts): Promise<StartedGateway> {
  const { config, directory, stack, logger, epoch, countTraffic } = parts
  const runAs = await prepareUser(parts)
  const apps =
    config.apps.mode === 'ports'
      ? ({ mode: 'ports' } as const)
      : ({ mode: 'hostnames', port: config.apps.gatewayPort, scheme: config.apps.scheme } as const)
  const gateway = await connectGateway({
    dataDirectory: directory.root,
    options: {
      version: await programVersion(),
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
      await count()
    } finally {
      await counting.stop()
      gateway.leave()
    }
  })
  // In ports mode, the first app starts the gateway.
  if (apps.mode === 'hostnames')
    await gateway.listen().catch((error: NodeJS.ErrnoException) => {
      throw listenError(error, config.host, sharedPort(config.apps), 'FAIRLEAD_GATEWAY_PORT')
    })
  return { gateway, runAs }
}

/**
 * Prepares the user of the gateway; `null` where the gateway runs as the user of the server. `setpriv` is required,
 * because the gateway must give up root rights before its program begins.
 */
async function prepareUser({
  config,
  directory,
  logger,
}: Pick<GatewayParts, 'config' | 'directory' | 'logger'>): Promise<RunAs | null> {
  const user = gatewayUser(config)
  if (user === null) return null
  const setpriv = await findProgram('setpriv', config.path)
  if (setpriv === null) {
    logger.warn('the gateway runs as root: install setpriv (util-linux)')
    return null
  }
  const { node, program } = await reachableGateway({
    runtime: directory.runtime,
    user,
    version: await programVersion(),
  })
  const lowest = config.apps.mode === 'ports' ? config.apps.ports.from : config.apps.gatewayPort
  return { user, setpriv, hasLowPorts: lowest < 1024, node, program }
}

/** Closes gateway entries of deleted apps that an earlier server has left open. */
export async function closeForgottenApps(
  gateway: Pick<GatewayProcess, 'apps' | 'close'>,
  apps: { readonly list: () => Promise<readonly { readonly id: string }[]> },
): Promise<void> {
  const known = new Set((await apps.list()).map(({ id }) => id))
  const forgotten = gateway.apps().filter(({ appId }) => !known.has(appId))
  await Promise.all(forgotten.map(({ appId }) => gateway.close(appId)))
}
