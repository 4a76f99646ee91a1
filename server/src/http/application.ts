import { createServer, type Server } from 'node:http'
import Koa, { type Middleware } from 'koa'
import pLimit, { type LimitFunction } from 'p-limit'
import type { Logger } from 'pino'
import { ApiError } from '../contract/errors.ts'
import { createAttemptLimiter } from '../platform/attempts.ts'
import { answerWhatKoaNeverSees } from './broken-requests.ts'
import { clientAddress, type IsTrustedProxy } from './client-address.ts'
import { type Dashboard, dashboardApi } from './dashboard.ts'
import { accessLog, errorAnswers, requestId } from './middleware.ts'
import { type ApiState, type MountOptions, mountOperations } from './mount.ts'
import type { Principal } from './principal.ts'
import { applyRateLimit, countFailure, type RateLimit } from './rate-limit.ts'

export interface Api extends MountOptions {
  /** The principal of an `Authorization` header, or `undefined`. */
  readonly authenticate: (authorization: string) => Promise<Principal | undefined>
  /** Counts a request against the limit of the principal's account. */
  readonly countRequest: (accountId: string, requestsPerHour: number) => Promise<RateLimit>
  readonly dashboard: Dashboard
}

/**
 * At once, and fewer than the pool has connections: a handler may ask something outside of its transaction, and if all
 * connections were held by transactions, each would wait for another to end.
 */
const mostTransactions = 14

/** The HTTP side of the server. It listens, and says so on `/healthz`, before anything behind it is ready. */
export interface Application {
  readonly server: Server
  /** Puts the API in its place; until then `/v1` answers that the server is starting. */
  mount(api: Api): void
  /** What `/readyz` asks; rejects with the reason while something is missing. */
  setReadiness(check: () => Promise<void>): void
}

export function createApplication(dependencies: {
  readonly logger: Logger
  readonly isTrustedProxy: IsTrustedProxy
}): Application {
  const { logger, isTrustedProxy } = dependencies
  let apis: { readonly v1: Middleware; readonly dashboard: Middleware } | undefined
  let readiness: () => Promise<void> = () => Promise.reject(new Error('the server is starting'))

  const koa = new Koa()
  koa.silent = true
  koa.use(requestId())
  koa.use(async (ctx, next) => {
    ctx.state['address'] = clientAddress(ctx.req, isTrustedProxy)
    await next()
  })
  koa.use(async (ctx, next) => {
    if (ctx.path === '/healthz') {
      ctx.body = { status: 'alive' }
    } else if (ctx.path === '/readyz') {
      const reason = await readiness().then(
        () => null,
        (error: unknown) => (error instanceof Error ? error.message : String(error)),
      )
      ctx.status = reason === null ? 200 : 503
      ctx.body = reason === null ? { status: 'ready' } : { status: 'not ready', reason }
    } else {
      await next()
    }
  })
  koa.use(accessLog(logger))
  koa.use(errorAnswers(logger))
  koa.use(async (ctx, next) => {
    const part = ctx.path.startsWith('/v1/') ? 'v1' : ctx.path.startsWith('/dashboard/api/') ? 'dashboard' : undefined
    if (part === undefined) return
    if (apis === undefined) throw new ApiError('server_error', 'The server is starting; try again in a moment.')
    await apis[part](ctx, next)
  })

  const server = createServer({ requireHostHeader: false }, koa.callback())
  answerWhatKoaNeverSees(server)
  return {
    server,
    mount(api) {
      const transactions = pLimit(mostTransactions)
      apis = {
        v1: versionOne(api, transactions),
        dashboard: dashboardApi({
          dashboard: api.dashboard,
          operations: mountOperations(api, transactions).prefix('/dashboard/api').routes() as unknown as Middleware,
          isTrustedProxy,
        }),
      }
    },
    setReadiness(check) {
      readiness = check
    },
  }
}

/** Failed authentication of one address. */
const failuresAMinute = { most: 60, windowMs: 60_000 }

function versionOne(api: Api, transactions: LimitFunction): Middleware {
  const routes = mountOperations(api, transactions).prefix('/v1').routes() as unknown as Middleware<ApiState>
  const failures = createAttemptLimiter(failuresAMinute)
  return async (ctx, next) => {
    const principal = await api.authenticate(ctx.get('Authorization'))
    if (principal === undefined) {
      countFailure(ctx, failures, ctx.state['address'])
      throw new ApiError('unauthorized', 'The API key is missing or not valid. Send it as Authorization: Bearer <key>.')
    }
    ctx.state['principal'] = principal
    if (principal.requestsPerHour !== null) {
      applyRateLimit(ctx, await api.countRequest(principal.accountId, principal.requestsPerHour))
    }
    await routes(ctx as Parameters<typeof routes>[0], next)
  }
}
