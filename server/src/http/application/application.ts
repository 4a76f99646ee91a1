import { createServer, type RequestListener, type Server } from 'node:http'
import Koa, { type Middleware } from 'koa'
import type { Logger } from 'pino'
import { ApiError } from '../../contract/errors.ts'
import type { Metrics } from '../../platform/metrics.ts'
import { clientAddress, type IsTrustedProxy } from '../client-address.ts'
import { dashboardApi } from '../dashboard/api.ts'
import type { Dashboard } from '../dashboard/call.ts'
import { type ChangesDependencies, createChanges } from '../operations/changes.ts'
import { type MountOptions, mountOperations } from '../operations/mount.ts'
import { createFailureLimiter } from '../rate-limit.ts'
import { reference } from '../reference/reference.ts'
import { securityHeaders } from '../security-headers.ts'
import { answerBrokenRequests } from './broken-requests.ts'
import { healthChecks, type ReadinessCheck } from './health.ts'
import { answerMetrics } from './metrics.ts'
import { accessLog, errorAnswers, requestId } from './middleware.ts'
import { unreadBodies } from './unread-bodies.ts'
import { type KeyAccess, versionOne } from './version-one.ts'

/** Everything that the API needs and that is available only once the server has started. */
export interface Api extends MountOptions, ChangesDependencies {
  readonly keys: KeyAccess
  readonly dashboard: Dashboard
  /** Answers under `/files`, and passes on everything else. */
  readonly downloads: Middleware
}

/** The HTTP side of the server. It listens, and answers `/healthz`, before the rest of the server has started. */
export interface Application {
  readonly server: Server
  /** Mounts the API. Until then `/v1` answers that the server is starting. */
  mount(api: Api): void
  /** Sets the check behind `/readyz`. Its reason is shown to everybody. */
  setReadiness(check: ReadinessCheck): void
}

export interface ApplicationOptions {
  readonly logger: Logger
  readonly metrics: Metrics
  /** Opens `/metrics`; without a token it answers 404. */
  readonly metricsToken: string | undefined
  /** The dashboard's files, for every path that nothing else answers. */
  readonly pages: Middleware
  readonly isTrustedProxy: IsTrustedProxy
}

const headersTimeoutMs = 10_000
const timeoutCheckMs = 5_000

export function createApplication(options: ApplicationOptions): Application {
  let mounted: MountedApi | undefined
  let readiness: ReadinessCheck = async () => 'the server is starting'

  const koa = new Koa()
  koa.silent = true
  koa.use(unreadBodies())
  koa.use(securityHeaders(options.isTrustedProxy))
  koa.use(requestId())
  koa.use(async (ctx, next) => {
    ctx.state['address'] = clientAddress(ctx.req, options.isTrustedProxy)
    await next()
  })
  koa.use(healthChecks(() => readiness()))
  koa.use(accessLog(options.logger, options.metrics))
  koa.use(errorAnswers(options.logger))
  koa.use(reference())
  koa.use((ctx, next) => (mounted === undefined ? next() : mounted.downloads(ctx, next)))
  koa.use(async (ctx, next) => {
    if (ctx.path === '/metrics' && ctx.method === 'GET') {
      return answerMetrics(ctx, options.metrics, options.metricsToken)
    }
    const part = ctx.path.startsWith('/v1/') ? 'v1' : ctx.path.startsWith('/dashboard/api/') ? 'dashboard' : undefined
    if (part === undefined) return options.pages(ctx, next)
    if (mounted === undefined) throw new ApiError('server_error', 'The server is starting; try again in a moment.')
    await mounted[part](ctx, next)
  })

  const server = listener(koa.callback())
  return {
    server,
    mount(api) {
      mounted = mountApi(api, options)
    },
    setReadiness(check) {
      readiness = check
    },
  }
}

function listener(listen: RequestListener): Server {
  const server = createServer(
    {
      requireHostHeader: false,
      // Bodies have their own deadlines: uploads take long, JSON must not.
      requestTimeout: 0,
      headersTimeout: headersTimeoutMs,
      connectionsCheckingInterval: timeoutCheckMs,
    },
    listen,
  )
  answerBrokenRequests(server)
  return server
}

interface MountedApi {
  readonly v1: Middleware
  readonly dashboard: Middleware
  readonly downloads: Middleware
}

/** Mounts the operations twice: for API keys under `/v1`, and for signed-in users under `/dashboard/api`. */
function mountApi(
  api: Api,
  { isTrustedProxy, logger }: Pick<ApplicationOptions, 'isTrustedProxy' | 'logger'>,
): MountedApi {
  const changes = createChanges(api)
  const operationsAt = (prefix: string) =>
    mountOperations(api, changes).prefix(prefix).routes() as unknown as Middleware
  return {
    v1: versionOne(api.keys, createFailureLimiter(api.database, logger), operationsAt('/v1')),
    dashboard: dashboardApi({
      dashboard: api.dashboard,
      operations: operationsAt('/dashboard/api'),
      isTrustedProxy,
    }),
    downloads: api.downloads,
  }
}
