import type { IncomingMessage, RequestListener, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Context, Middleware } from 'koa'
import Koa from 'koa'
import type { Logger } from 'pino'
import { ApiError } from '../contract/errors.ts'
import { connectPath } from '../contract/run-protocol.ts'
import type { Database } from '../platform/database.ts'
import { acceptHalfClosed, createServer, JoinedMessage } from '../platform/http.ts'
import { createFailureLimiter, type KeyAccess, versionOne } from './authentication.ts'
import { answerJson } from './bodies.ts'
import { clientAddress, type IsTrustedProxy } from './client-address.ts'
import { answerBrokenRequests, limitConnections, oneByOne, unreadBodies } from './connections.ts'
import { type Dashboard, dashboardApi } from './dashboard.ts'
import { createEdgeListener, type EdgeListener } from './edge-listener.ts'
import {
  accessLog,
  answerMetrics,
  errorAnswers,
  healthChecks,
  type KnownProblems,
  type ProtectedMetrics,
  type ReadinessCheck,
  requestId,
  securityHeaders,
} from './middleware.ts'
import { oidcToken, type TokenExchange, tokenPath } from './oidc-token.ts'
import { type ChangesDependencies, createChanges, type MountOptions, mountOperations } from './operations.ts'
import { reference } from './reference/reference.ts'
import { commandPackage } from './static-files.ts'

/** Everything that the API needs and that is available only once the server has started. */
export interface Api extends MountOptions, ChangesDependencies {
  readonly database: Database
  readonly keys: KeyAccess
  readonly dashboard: Dashboard
  readonly tokens: TokenExchange
  /** Handles a request for a WebSocket at `connectPath`. */
  readonly connectRun: ConnectRun
  /** Answers under `/files`, and passes on everything else. */
  readonly downloads: Middleware
  /** Answers at `/databases/ca.pem`, and passes on everything else. */
  readonly authority: Middleware
  /** Answers `POST` at `/device/code` and `/device/token`, and passes on everything else. */
  readonly deviceLogin: Middleware
}

/** The HTTP side of the server. It listens, and answers `/healthz`, before the rest of the server has started. */
export interface Application {
  readonly server: Server
  /** Mounts the API. Until then it answers `server_error`: the server is starting. */
  mount(api: Api): void
  /** Sets the check behind `/readyz`. Its reason is shown to everybody. */
  setReadiness(check: ReadinessCheck): void
  /** Adds a source of the `problems` in the answer of `/readyz`. */
  addProblems(problems: KnownProblems): void
  readonly edge: EdgeListener
}

export interface ApplicationOptions {
  readonly logger: Logger
  /** `null` without a token; `/metrics` then answers 404. */
  readonly metrics: ProtectedMetrics | null
  /** The dashboard's files, for every path that nothing else answers. */
  readonly pages: Middleware
  readonly isTrustedProxy: IsTrustedProxy
  readonly mostConnections: number
}

const headersTimeoutMs = 10_000
const startingRetrySeconds = 2
const timeoutCheckMs = 5_000

export function createApplication(options: ApplicationOptions): Application {
  let mounted: MountedApi | undefined
  let readiness: ReadinessCheck = async () => 'the server is starting'
  const problems: KnownProblems[] = []

  const koa = new Koa()
  koa.silent = true
  koa.use(unreadBodies())
  koa.use(securityHeaders(options.isTrustedProxy))
  koa.use(requestId())
  koa.use(async (ctx, next) => {
    ctx.state['address'] = clientAddress(ctx.req, options.isTrustedProxy)
    await next()
  })
  koa.use(
    healthChecks(
      () => readiness(),
      () => problems.flatMap((known) => known()),
    ),
  )
  koa.use(accessLog(options.logger, options.metrics))
  koa.use(errorAnswers(options.logger))
  koa.use(reference(options.isTrustedProxy))
  koa.use(commandPackage())
  koa.use(async (ctx, next) => {
    if (ctx.path === '/metrics' && ctx.method === 'GET') return answerMetrics(ctx, options.metrics)
    const part = partOf(ctx.path)
    if (part === undefined) return options.pages(ctx, next)
    if (mounted === undefined) return answerStarting(ctx)
    await mounted[part](ctx, next)
  })

  const server = listener(koa.callback())
  const mountUpgrades = passUpgrades(server)
  limitConnections(server, { most: options.mostConnections, isTrustedProxy: options.isTrustedProxy })
  return {
    server,
    mount(api) {
      mounted = mountApi(api, options)
      mountUpgrades(api.connectRun)
    },
    setReadiness(check) {
      readiness = check
    },
    addProblems(known) {
      problems.push(known)
    },
    edge: createEdgeListener(server),
  }
}

function partOf(path: string): keyof MountedApi | undefined {
  if (path.startsWith('/v1/')) return 'v1'
  if (path.startsWith('/dashboard/api/')) return 'dashboard'
  if (path === tokenPath) return 'tokens'
  if (path === '/databases/ca.pem') return 'authority'
  if (path === '/device/code' || path === '/device/token') return 'deviceLogin'
  return path.startsWith('/files/') ? 'downloads' : undefined
}

/** A `server_error`, which the specification pairs with 500, and the time after which clients try again. */
function answerStarting(ctx: Context): void {
  const error = new ApiError('server_error', 'The server is starting; try again in a moment.')
  ctx.status = error.status
  ctx.set('Retry-After', String(startingRetrySeconds))
  answerJson(ctx, error.toBody())
}

function listener(listen: RequestListener): Server {
  const server = createServer(
    {
      IncomingMessage: JoinedMessage,
      requireHostHeader: false,
      // Bodies have separate deadlines: uploads take long, JSON must not.
      requestTimeout: 0,
      headersTimeout: headersTimeoutMs,
      connectionsCheckingInterval: timeoutCheckMs,
      shouldUpgradeCallback: isUpgrade,
    },
    oneByOne(listen),
  )
  acceptHalfClosed(server)
  answerBrokenRequests(server)
  return server
}

interface MountedApi {
  readonly v1: Middleware
  readonly dashboard: Middleware
  readonly tokens: Middleware
  readonly downloads: Middleware
  readonly authority: Middleware
  readonly deviceLogin: Middleware
}

/** Mounts the operations twice: for API keys under `/v1`, and for signed-in users under `/dashboard/api`. */
function mountApi(
  api: Api,
  { isTrustedProxy, logger }: Pick<ApplicationOptions, 'isTrustedProxy' | 'logger'>,
): MountedApi {
  const changes = createChanges(api)
  const operationsAt = (prefix: string) =>
    mountOperations(api, changes).prefix(prefix).routes() as unknown as Middleware
  const failures = createFailureLimiter(api.database, logger)
  return {
    v1: versionOne(api.keys, failures, operationsAt('/v1')),
    tokens: oidcToken(api.tokens, api.keys, failures),
    dashboard: dashboardApi({
      dashboard: api.dashboard,
      operations: operationsAt('/dashboard/api'),
      isTrustedProxy,
    }),
    downloads: api.downloads,
    authority: api.authority,
    deviceLogin: api.deviceLogin,
  }
}

/** Connects a client to its run. Never rejects. */
export type ConnectRun = (request: IncomingMessage, socket: Duplex, head: Buffer) => Promise<void>

/** The only request that is taken out of HTTP. All other requests are answered as plain HTTP. */
const isUpgrade = ({ headers, url }: IncomingMessage): boolean =>
  headers.upgrade?.toLowerCase() === 'websocket' && url === connectPath

/**
 * Passes requests for a WebSocket on, once a handler is set. Before that, their connections are closed, and clients try
 * again.
 */
function passUpgrades(server: Server): (connect: ConnectRun) => void {
  let connect: ConnectRun | undefined
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (connect === undefined) socket.destroy()
    else void connect(request, socket, head)
  })
  return (given) => {
    connect = given
  }
}
