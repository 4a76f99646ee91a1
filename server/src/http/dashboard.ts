import { Router } from '@koa/router'
import type { Context, Middleware } from 'koa'
import {
  type DashboardBodyOutput,
  type DashboardOperation,
  type DashboardResponse,
  dashboardOperations,
} from '../contract/dashboard-operations.ts'
import type { DashboardParam, DashboardRouteName, dashboardRoutes } from '../contract/dashboard-routes.ts'
import { ApiError, notFound } from '../contract/errors.ts'
import { isId } from '../contract/ids.ts'
import { jsonBody } from './body.ts'
import { clientHost, type IsTrustedProxy, isSecure } from './client-address.ts'
import type { Principal } from './principal.ts'
import { parseBody } from './validation.ts'

/** A user's session, as found by its cookie. */
export interface SignedIn {
  readonly sessionId: string
  readonly principal: Principal
}

/** What a handler of the dashboard's own routes is called with. */
export interface DashboardCall<Name extends DashboardRouteName> {
  readonly signedIn: (typeof dashboardRoutes)[Name]['access'] extends 'user' ? SignedIn : undefined
  /** What the cookie holds, valid or not. */
  readonly token: string | undefined
  readonly params: Readonly<Record<DashboardParam<Name>, string>>
  readonly body: DashboardBodyOutput<Name>
  readonly request: { readonly id: string; readonly address: string; readonly userAgent: string | null }
  /** Gives the browser a new token; `null` takes the cookie away. */
  readonly setToken: (token: string | null) => void
  /** Says when to try again; goes with `rate_limit_exceeded`. */
  readonly setRetryAfter: (seconds: number) => void
}

export type DashboardHandlers = {
  readonly [Name in DashboardRouteName]: (call: DashboardCall<Name>) => Promise<DashboardResponse<Name>>
}

export interface Dashboard {
  /** The session that a cookie's token opens, or `undefined`. */
  readonly authenticate: (token: string) => Promise<SignedIn | undefined>
  readonly handlers: DashboardHandlers
}

/** As long as a session may last at all; the server ends it sooner. */
const cookieSeconds = 30 * 24 * 60 * 60

interface DashboardState {
  requestId: string
  address: string
  token: string | undefined
  signedIn: SignedIn | undefined
  principal: Principal | undefined
}

/**
 * The API for signed-in users: the dashboard's own routes, then `operations`, which are those of /v1. Who asks is told
 * by a cookie, so every change must come from a page of this very origin.
 */
export function dashboardApi(options: {
  readonly dashboard: Dashboard
  readonly operations: Middleware
  readonly isTrustedProxy: IsTrustedProxy
}): Middleware<DashboardState> {
  const { dashboard, operations, isTrustedProxy } = options
  const own = ownRoutes(dashboard, isTrustedProxy).prefix('/dashboard/api').routes() as unknown as Middleware
  return async (ctx, next) => {
    ctx.set('Cache-Control', 'no-store')
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') refuseOtherOrigins(ctx, clientHost(ctx.req, isTrustedProxy))
    const tokens = tokensIn(ctx.get('Cookie'), cookieName(isSecure(ctx.req, isTrustedProxy)))
    const { token = tokens[0], signedIn } = await findSession(tokens, dashboard)
    const authenticateAgain = async () =>
      token === undefined ? undefined : (await dashboard.authenticate(token))?.principal
    Object.assign(ctx.state, { token, signedIn, principal: signedIn?.principal, authenticateAgain })
    await own(ctx, async () => {
      requireSession(signedIn)
      await operations(ctx, next)
    })
  }
}

/** More cookies of one name are somebody's mischief. */
const mostTokens = 5

/**
 * What the cookies of this name hold, ours first. Pages of apps on other ports of this host can set cookies of any name
 * beside ours, though never in its place: ours has the shortest path, and browsers send that one last (RFC 6265 §5.4).
 */
function tokensIn(cookies: string, name: string): readonly string[] {
  const pairs = cookies.split(';').map((pair) => pair.trim())
  return pairs
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
    .toReversed()
    .slice(0, mostTokens)
}

/** The session of the first token that opens one. */
async function findSession(
  tokens: readonly string[],
  dashboard: Dashboard,
): Promise<{ readonly token?: string; readonly signedIn?: SignedIn }> {
  for (const token of tokens) {
    const signedIn = await dashboard.authenticate(token)
    if (signedIn !== undefined) return { token, signedIn }
  }
  return {}
}

/** Calls without their type parameter, as in mount.ts. */
type AnyHandler = (call: { readonly [Part in keyof DashboardCall<'session.get'>]: unknown }) => Promise<unknown>

function ownRoutes(dashboard: Dashboard, isTrustedProxy: IsTrustedProxy): Router<DashboardState> {
  const router = new Router<DashboardState>({ strict: true, sensitive: true })
  const readBody = jsonBody()
  for (const operation of dashboardOperations) {
    const handle = dashboard.handlers[operation.name] as AnyHandler
    router.register(
      operation.path,
      [operation.method],
      [
        async (ctx, next) => {
          if (operation.access === 'user') requireSession(ctx.state.signedIn)
          await next()
        },
        ...(operation.body ? [readBody] : []),
        async (ctx) => {
          const { signedIn, token, requestId, address } = ctx.state
          const body = operation.body && parseBody(operation.body, ctx.request.body)
          if (ctx.params['id'] !== undefined && !isId('session', ctx.params['id'])) throw notFound()
          const result = await handle({
            signedIn,
            token,
            params: ctx.params,
            body,
            request: { id: requestId, address, userAgent: ctx.get('User-Agent').slice(0, 300) || null },
            setToken: (given: string | null) => setCookie(ctx, given, isSecure(ctx.req, isTrustedProxy)),
            setRetryAfter: (seconds: number) => ctx.set('Retry-After', String(seconds)),
          })
          send(ctx, operation, result)
        },
      ],
    )
  }
  return router
}

function send(ctx: Pick<Context, 'status' | 'body'>, operation: DashboardOperation, result: unknown): void {
  ctx.status = operation.status
  if (operation.response !== undefined) ctx.body = operation.response.parse(result)
}

function requireSession(signedIn: SignedIn | undefined): void {
  if (signedIn === undefined) throw new ApiError('unauthorized', 'Sign in first.')
}

/** `__Host-` holds a cookie to this host and to HTTPS; browsers take it nowhere else. */
function cookieName(secure: boolean): string {
  return secure ? '__Host-fairlead_session' : 'fairlead_session'
}

/**
 * Strict: the dashboard's pages are static and open to all, and what they ask for afterwards comes from their own
 * origin, so deep links from elsewhere work all the same.
 */
function setCookie(ctx: Pick<Context, 'append'>, token: string | null, secure: boolean): void {
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Strict', ...(secure ? ['Secure'] : [])]
  const value = `${cookieName(secure)}=${token ?? ''}`
  ctx.append('Set-Cookie', [value, `Max-Age=${token === null ? 0 : cookieSeconds}`, ...attributes].join('; '))
}

/**
 * Against forged requests. Browsers say by `Sec-Fetch-Site` where a request comes from; over plain HTTP to another
 * machine they do not, but send the page's origin with every change. Another port of this host is another origin.
 */
function refuseOtherOrigins(ctx: Pick<Context, 'get'>, host: string): void {
  const site = ctx.get('Sec-Fetch-Site')
  if (site === '' ? isOrigin(ctx.get('Origin'), host) : site === 'same-origin') return
  throw new ApiError('forbidden', 'This request does not come from the dashboard.')
}

function isOrigin(origin: string, host: string): boolean {
  if (!URL.canParse(origin)) return false
  const from = new URL(origin)
  const own = `${from.protocol}//${host}`
  return URL.canParse(own) && new URL(own).host === from.host && host !== ''
}
