import { proxyRule, type ServerOptions } from './composition/composition.ts'
import { compose } from './composition/features.ts'
import { listen } from './composition/listen.ts'
import { createApplication } from './http/application/application.ts'
import { dashboardDirectory, dashboardFiles } from './http/dashboard/files.ts'
import { type Config, publicOrigin } from './platform/config.ts'
import { prepareJobs } from './platform/jobs.ts'
import type { Logger } from './platform/logger.ts'
import { createMetrics } from './platform/metrics.ts'
import { createReleaseStack } from './platform/release-stack.ts'
import { openSecretBox } from './platform/secret-key.ts'
import { takeServerLock } from './platform/server-lock.ts'
import { openState } from './platform/state.ts'

export type { ServerOptions } from './composition/composition.ts'

export interface FairleadServer {
  /** Where it listens, such as `http://127.0.0.1:3000`. */
  readonly url: string
  /** Stops everything in order: no new work, running requests and jobs, apps, the database. */
  stop(): Promise<void>
}

/**
 * Starts a whole server. It answers on `/healthz` and `/readyz` from the first moment; this resolves when the API is up.
 * Rejects with what is wrong (port, data directory, database, key), and leaves nothing running then.
 */
export async function startServer(options: ServerOptions): Promise<FairleadServer> {
  const { config, logger } = options
  const stack = createReleaseStack(logger, options.signal)
  try {
    const metrics = createMetrics({ logger })
    const application = createApplication({
      logger,
      metrics,
      metricsToken: config.metricsToken,
      pages: await dashboardFiles(dashboardDirectory),
      isTrustedProxy: proxyRule(config),
    })
    const { url, close } = await listen(application.server, config)
    stack.defer('http', close)
    sayWhereItStands(config, logger)

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
      publicOrigin: publicOrigin(config, Number(new URL(url).port || 80)),
    })
    // The first to stop, too: requests end while everything that they need is still there.
    stack.defer('http', close)
    logger.info({ url }, 'ready')
    return { url, stop: () => stack.unwind() }
  } catch (error) {
    await stack.unwind()
    throw error
  }
}

function sayWhereItStands(config: Config, logger: Logger): void {
  if (config.localMode) {
    logger.info('local mode: only this machine reaches the server, and file: repositories may be deployed')
  }
}
