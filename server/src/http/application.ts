import { createServer, type Server } from 'node:http'
import Koa, { type Middleware } from 'koa'
import type { Logger } from 'pino'
import { ApiError } from '../contract/errors.ts'
import { answerWhatKoaNeverSees } from './broken-requests.ts'
import { accessLog, errorAnswers, requestId } from './middleware.ts'
import { type ApiState, type MountOptions, mountOperations } from './mount.ts'
import type { Principal } from './principal.ts'
import { requestTime } from './request-time.ts'

export interface Api extends MountOptions {
  /** The principal of an `Authorization` header, or `undefined`. */
  readonly authenticate: (authorization: string) => Promise<Principal | undefined>
  /** Answers under `/files`, and passes on everything else. */
  readonly downloads: Middleware
}

/** The HTTP side of the server. It listens, and says so on `/healthz`, before anything behind it is ready. */
export interface Application {
  readonly server: Server
  /** Puts the API in its place; until then `/v1` answers that the server is starting. */
  mount(api: Api): void
  /** What `/readyz` asks; rejects with the reason while something is missing. */
  setReadiness(check: () => Promise<void>): void
}

export function createApplication(dependencies: { readonly logger: Logger }): Application {
  const { logger } = dependencies
  let v1: Middleware | undefined
  let downloads: Middleware = (_ctx, next) => next()
  let readiness: () => Promise<void> = () => Promise.reject(new Error('the server is starting'))

  const koa = new Koa()
  koa.silent = true
  koa.use(requestTime())
  koa.use(requestId())
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
  koa.use((ctx, next) => downloads(ctx, next))
  koa.use(async (ctx, next) => {
    if (!ctx.path.startsWith('/v1/')) return
    if (v1 === undefined) throw new ApiError('server_error', 'The server is starting; try again in a moment.')
    await v1(ctx, next)
  })

  // Node's limit on the time of a whole request would end long uploads; `requestTime` stands in for it.
  const server = createServer({ requireHostHeader: false, headersTimeout: 60_000, requestTimeout: 0 }, koa.callback())
  answerWhatKoaNeverSees(server)
  return {
    server,
    mount(api) {
      v1 = versionOne(api)
      downloads = api.downloads
    },
    setReadiness(check) {
      readiness = check
    },
  }
}

function versionOne(api: Api): Middleware {
  const routes = mountOperations(api).prefix('/v1').routes() as unknown as Middleware<ApiState>
  return async (ctx, next) => {
    const principal = await api.authenticate(ctx.get('Authorization'))
    if (principal === undefined) {
      throw new ApiError('unauthorized', 'The API key is missing or not valid. Send it as Authorization: Bearer <key>.')
    }
    ctx.state['principal'] = principal
    await routes(ctx as Parameters<typeof routes>[0], next)
  }
}
