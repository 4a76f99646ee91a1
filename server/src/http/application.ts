import { createServer, type Server } from 'node:http'
import Koa, { type Middleware } from 'koa'
import type { Logger } from 'pino'
import { ApiError } from '../contract/errors.ts'
import { createAttemptLimiter } from '../platform/attempts.ts'
import type { Database } from '../platform/database.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { SecretBox } from '../platform/secrets/secret-box.ts'
import { answerWhatKoaNeverSees } from './broken-requests.ts'
import { type Changes, createChanges } from './changes.ts'
import { clientAddress, type IsTrustedProxy } from './client-address.ts'
import { type Dashboard, dashboardApi } from './dashboard.ts'
import { answerMetrics } from './metrics.ts'
import { accessLog, errorAnswers, requestId } from './middleware.ts'
import { type ApiState, type MountOptions, mountOperations } from './mount.ts'
import type { Principal } from './principal.ts'
import { applyRateLimit, countFailure, type RateLimit } from './rate-limit.ts'
import { reference } from './reference/reference.ts'
import { securityHeaders } from './security-headers.ts'
import { unreadBodies } from './unread-bodies.ts'

export interface Api extends MountOptions {
  readonly database: Database
  /** For the answers that are kept for repetitions. */
  readonly secrets: SecretBox
  /** The principal of an `Authorization` header, or `undefined`. */
  readonly authenticate: (authorization: string) => Promise<Principal | undefined>
  /** Counts a request against the limit of the principal's account. */
  readonly countRequest: (accountId: string, requestsPerHour: number) => Promise<RateLimit>
  readonly dashboard: Dashboard
  /** Answers under `/files`, and passes on everything else. */
  readonly downloads: Middleware
}

/** The HTTP side of the server. It listens, and says so on `/healthz`, before anything behind it is ready. */
export interface Application {
  readonly server: Server
  /** Puts the API in its place; until then `/v1` answers that the server is starting. */
  mount(api: Api): void
  /** What `/readyz` asks: what is missing, or `undefined`. It is shown to everybody. */
  setReadiness(check: () => Promise<string | undefined>): void
}

export interface ApplicationOptions {
  readonly logger: Logger
  readonly metrics: Metrics
  /** Opens `/metrics`, which there is not without it. */
  readonly metricsToken: string | undefined
  /** The dashboard, for what nothing else has taken. */
  readonly pages: Middleware
  /** Whether what a peer at this address says of its client is believed. */
  readonly isTrustedProxy: IsTrustedProxy
}

const headersTimeoutMs = 10_000
const timeoutCheckMs = 5_000

export function createApplication(options: ApplicationOptions): Application {
  const { logger, metrics, isTrustedProxy } = options
  let downloads: Middleware = (_ctx, next) => next()
  let apis: { readonly v1: Middleware; readonly dashboard: Middleware } | undefined
  let readiness: () => Promise<string | undefined> = async () => 'the server is starting'

  const koa = new Koa()
  koa.silent = true
  koa.use(unreadBodies())
  koa.use(securityHeaders(options.isTrustedProxy))
  koa.use(requestId())
  koa.use(async (ctx, next) => {
    ctx.state['address'] = clientAddress(ctx.req, isTrustedProxy)
    await next()
  })
  koa.use(async (ctx, next) => {
    if (ctx.path === '/healthz') {
      ctx.body = { status: 'alive' }
    } else if (ctx.path === '/readyz') {
      const reason = await readiness()
      ctx.status = reason === undefined ? 200 : 503
      ctx.body = reason === undefined ? { status: 'ready' } : { status: 'not ready', reason }
    } else {
      await next()
    }
  })
  koa.use(accessLog(logger, metrics))
  koa.use(errorAnswers(logger))
  koa.use(reference())
  koa.use((ctx, next) => downloads(ctx, next))
  koa.use(async (ctx, next) => {
    if (ctx.path === '/metrics' && ctx.method === 'GET') return answerMetrics(ctx, metrics, options.metricsToken)
    const part = ctx.path.startsWith('/v1/') ? 'v1' : ctx.path.startsWith('/dashboard/api/') ? 'dashboard' : undefined
    if (part === undefined) return options.pages(ctx, next)
    if (apis === undefined) throw new ApiError('server_error', 'The server is starting; try again in a moment.')
    await apis[part](ctx, next)
  })

  const server = createServer(
    {
      requireHostHeader: false,
      // Uploads take what they need under a deadline of their own, as do bodies in JSON.
      requestTimeout: 0,
      headersTimeout: headersTimeoutMs,
      connectionsCheckingInterval: timeoutCheckMs,
    },
    koa.callback(),
  )
  answerWhatKoaNeverSees(server)
  return {
    server,
    mount(api) {
      const changes = createChanges(api)
      apis = {
        v1: versionOne(api, changes),
        dashboard: dashboardApi({
          dashboard: api.dashboard,
          operations: mountOperations(api, changes).prefix('/dashboard/api').routes() as unknown as Middleware,
          isTrustedProxy,
        }),
      }
      downloads = api.downloads
    },
    setReadiness(check) {
      readiness = check
    },
  }
}

/** Failed authentication of one address. */
const failuresAMinute = { most: 60, windowMs: 60_000 }

function versionOne(api: Api, changes: Changes): Middleware {
  const routes = mountOperations(api, changes).prefix('/v1').routes() as unknown as Middleware<ApiState>
  const failures = createAttemptLimiter(failuresAMinute)
  return async (ctx, next) => {
    const authenticate = () => api.authenticate(ctx.get('Authorization'))
    const principal = await authenticate()
    if (principal === undefined) {
      countFailure(ctx, failures, ctx.state['address'])
      throw new ApiError('unauthorized', 'The API key is missing or not valid. Send it as Authorization: Bearer <key>.')
    }
    Object.assign(ctx.state, { principal, authenticateAgain: authenticate })
    if (principal.requestsPerHour !== null) {
      applyRateLimit(ctx, await api.countRequest(principal.accountId, principal.requestsPerHour))
    }
    await routes(ctx as Parameters<typeof routes>[0], next)
  }
}
