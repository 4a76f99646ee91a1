import type { Server } from 'node:http'
import { compose } from './composition/compose.ts'
import { proxyRule, type ServerOptions } from './composition/composition.ts'
import { listen } from './composition/listen.ts'
import { createApplication } from './http/application/application.ts'
import { createRetirement } from './http/application/retirement.ts'
import { dashboardDirectory, dashboardFiles } from './http/dashboard/files.ts'
import { type Config, publicOrigin } from './platform/config.ts'
import { prepareJobs } from './platform/jobs.ts'
import type { Logger } from './platform/logger.ts'
import { createMetrics } from './platform/metrics.ts'
import { openSecretBox } from './platform/secrets/secret-key.ts'
import { takeServerLock } from './platform/startup/server-lock.ts'
import { createShutdownStack } from './platform/startup/shutdown.ts'
import { openState } from './platform/startup/state.ts'

export type { ServerOptions } from './composition/composition.ts'

export interface FairleadServer {
  /** The address that it listens on, such as `http://127.0.0.1:3000`. */
  readonly url: string
  /** The server that listens there, for a handover. */
  readonly listener: Server
  /** Stops accepting, and finishes what was accepted; for a server that another one has replaced. Stop it afterwards. */
  retire(deadlineMs: number): Promise<void>
  /** Stops in order: accepts no new work, then ends running requests and jobs, apps, and the database. */
  stop(): Promise<void>
}

/**
 * Starts a whole server. It answers on `/healthz` and `/readyz` at once; the function resolves when the API is ready.
 * Rejects when the server cannot start (port, data directory, database, key); nothing is left running then.
 */
export async function startServer(options: ServerOptions): Promise<FairleadServer> {
  const { config, logger } = options
  const stack = createShutdownStack(logger, options.signal)
  try {
    const metrics = createMetrics({ logger })
    const application = createApplication({
      logger,
      metrics,
      metricsToken: config.metricsToken,
      pages: await dashboardFiles(dashboardDirectory),
      isTrustedProxy: proxyRule(config),
    })
    const retirement = createRetirement(application.server)
    const { url, close, begin } = await listen(application.server, config, options.takeover)
    stack.defer('http', close)
    logLocalMode(config, logger)

    const state = await openState({ config, logger, supervise: true, signal: stack.signal })
    stack.defer('database', () => state.close())
    const lock = await takeServerLock({
      connection: state.connection,
      logger,
      onLost: () => options.onFatal(new Error('Another Fairlead server has taken over this database.')),
    })
    stack.defer('server lock', () => lock.release())
    await prepareJobs(state.pool, logger)
    const secrets = await openSecretBox({
      database: state.db,
      given: config.secretKey,
      file: state.directory.secretKeyFile,
    })
    await compose({
      ...options,
      state,
      secrets,
      application,
      metrics,
      stack,
      retiring: retirement.signal,
      publicOrigin: publicOrigin(config, Number(new URL(url).port || 80)),
    })
    // Closed first when the server stops, so that requests finish while all that they need still runs.
    stack.defer('http', close)
    await begin()
    logger.info({ url }, 'ready')
    return { url, listener: application.server, retire: retirement.retire, stop: () => stack.unwind() }
  } catch (error) {
    await stack.unwind()
    throw error
  }
}

function logLocalMode(config: Config, logger: Logger): void {
  if (config.localMode) {
    logger.info('local mode: only this machine can reach the server, and file: repositories may be deployed')
  }
}
