import { randomUUID } from 'node:crypto'
import type { Server } from 'node:http'
import { contend, register } from './composition/campaign.ts'
import { composeRequests } from './composition/compose.ts'
import type { ServerOptions } from './composition/composition.ts'
import { readiness, registerLostLines, registerRole } from './composition/health.ts'
import { endLeftovers } from './composition/leftovers.ts'
import { listen, mostConnections } from './composition/listen.ts'
import { createApplication } from './http/application.ts'
import type { ProtectedMetrics } from './http/middleware.ts'
import { createRetirement } from './http/retirement.ts'
import { dashboardDirectory, dashboardFiles } from './http/static-files.ts'
import { type Config, publicOrigin } from './platform/config.ts'
import { findLeader } from './platform/control/client.ts'
import { openPresence, type Presence } from './platform/control/server.ts'
import { foreignOwner, openDataDirectory } from './platform/data-directory.ts'
import { releaseBallast } from './platform/disk/free-space.ts'
import { prepareJobs } from './platform/jobs.ts'
import type { Logger } from './platform/logger.ts'
import { migrations } from './platform/migrations/index.ts'
import { addressesIn } from './platform/outbound.ts'
import { assertUsableSchema } from './platform/schema.ts'
import { openSecretBox } from './platform/secrets.ts'
import {
  createShutdownStack,
  finishTimeoutMs,
  finishTransfersMs,
  type StopScope,
  scopeOf,
} from './platform/shutdown.ts'
import { clusterUser, openState } from './platform/state.ts'
import { createRunConnections } from './runs/index.ts'

export type { ServerOptions } from './composition/composition.ts'

export interface FairleadServer {
  /** The listening address, such as `http://127.0.0.1:3000`. */
  readonly url: string
  /** The server that listens there, for a handover. */
  readonly listener: Server
  /**
   * Gives up the leadership, stops accepting, and finishes accepted requests, after another server has replaced this
   * server. Call `stop` afterwards.
   */
  retire(deadlineMs: number): Promise<void>
  /**
   * Stops in order: accepts no new work, ends running requests and jobs, and closes the database. With `all` also stops
   * apps, gateway and database clusters; with `server` they stay for the next server.
   */
  stop(scope: StopScope): Promise<void>
}

/**
 * Starts a whole server. It answers on `/healthz` and `/readyz` at once; the function resolves when the API is ready,
 * and either this server leads and its apps are reconciled, or another server leads. It may lead, follow, and lead
 * again. Rejects when the server cannot start (port, data directory, database, key); nothing is left running then.
 */
export async function startServer(options: ServerOptions): Promise<FairleadServer> {
  const { config, logger } = options
  const stack = createShutdownStack(logger, options.signal)
  let presence: Presence | undefined
  let isReady = false
  // Apps go on when another server takes over.
  let scope: StopScope = 'server'
  let stopping: Promise<void> | undefined
  const stopNow = async (asked: StopScope) => {
    scope = (await presence?.leave(asked)) ?? asked
    await stack.unwind(scope)
  }
  const stop = (asked: StopScope) => {
    stopping ??= stopNow(asked)
    return stopping
  }
  try {
    const metrics = await openMetrics(config.metricsToken, logger)
    const application = createApplication({
      logger,
      metrics,
      pages: await dashboardFiles(dashboardDirectory),
      isTrustedProxy: addressesIn(config.trustedProxies),
      mostConnections: mostConnections(),
    })
    const retirement = createRetirement(application.server, application.edge)
    const finish = (scope: StopScope) =>
      retirement.finish({
        requestsMs: finishTimeoutMs,
        transfersMs: scope === 'server' ? finishTransfersMs : finishTimeoutMs,
      })
    const { url, begin } = await listen(application.server, config, options.takeover)
    stack.defer('http', finish)
    logLocalMode(config, logger)

    const warning = await foreignOwner(config.dataDirectory)
    if (warning !== null) logger.warn(warning)
    const directory = await openDataDirectory(config.dataDirectory, clusterUser(config))
    // Release the reserve first: the next record also needs space.
    await releaseBallast(directory.root, logger)
    const id = randomUUID()
    const runConnections = createRunConnections({
      findLeader: () => findLeader(directory.run),
      stopping: AbortSignal.any([stack.signal, retirement.signal]),
      logger,
    })
    presence = await openPresence({
      id,
      directory,
      logger,
      onStop: options.onStopRequest ?? ((scope) => void stop(scope)),
      onHandover: options.onHandoverRequest,
      onUpgrade: runConnections.fromServer,
    })
    stack.defer('control socket', presence.close)
    presence.update({ url })
    // A failed start must not end parts that it has not taken over.
    stack.defer('leftovers', async (scope) => {
      if (scope === 'all' && isReady) await endLeftovers({ directory, logger })
    })
    const state = await openState({ config, logger, supervise: true, signal: stack.signal })
    stack.defer('database', (scope) => state.close({ keep: scope === 'server' }))
    const server = await register({ ...options, state, stack }, { id, url })
    // A newer version may have migrated the database before it saw the registration of this server.
    await assertUsableSchema(state.db, migrations)
    await prepareJobs(state.pool, logger)
    const secrets = await openSecretBox({
      database: state.db,
      given: config.secretKey,
      file: state.directory.secretKeyFile,
    })
    const composition = {
      ...options,
      state,
      secrets,
      application,
      metrics,
      stack,
      retiring: retirement.signal,
      runConnections,
      publicOrigin: publicOrigin(config, Number(new URL(url).port || 80)),
    }
    const shared = await composeRequests(composition)
    const member = await contend(composition, shared, {
      server,
      scope: () => scope,
      onLeading: (leading) => presence?.update({ leading }),
    })
    application.setReadiness(readiness(state, member, options))
    if (metrics !== null) {
      registerRole(metrics, member)
      registerLostLines(metrics, options.lostLogLines)
    }
    // Closed first at a stop, so that requests finish while their dependencies still run.
    stack.defer('http', finish)
    await begin()
    presence.update({ state: 'ready' })
    isReady = true
    logger.info({ url, leader: member.isLeader() }, 'ready')
    const retire = async (deadlineMs: number) => {
      await presence?.leave('server')
      await Promise.all([member.resign(), retirement.retire(deadlineMs)])
    }
    return { url, listener: application.server, retire, stop }
  } catch (error) {
    await stop(scopeOf(options.signal, config.onStop))
    throw error
  }
}

/** Returns null without a token, because then metrics cannot be read, and their library only takes memory. */
async function openMetrics(token: string | undefined, logger: Logger): Promise<ProtectedMetrics | null> {
  if (token === undefined) return null
  const { createMetrics } = await import('./platform/metrics.ts')
  return { ...createMetrics({ logger }), token }
}

function logLocalMode(config: Config, logger: Logger): void {
  if (config.localMode) {
    logger.info('local mode: only this machine can reach the server, and file: repositories may be deployed')
  }
}
