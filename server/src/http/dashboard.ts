import type { Router } from '@koa/router'
import type { Context, Middleware } from 'koa'
import {
  type DashboardBodyOutput,
  type DashboardOperation,
  type DashboardResponse,
  dashboardOperations,
} from '../contract/dashboard.ts'
import { ApiError, notFound } from '../contract/errors.ts'
import { isId } from '../contract/ids.ts'
import type { DashboardParam, DashboardRouteName, dashboardRoutes } from '../contract/routes.ts'
import { applyRateLimit, type CountRequest } from './authentication.ts'
import { answerJson, jsonBody } from './bodies.ts'
import { clientHost, type IsTrustedProxy, isSecure } from './client-address.ts'
import type { Principal } from './principal.ts'
import { createRouter } from './router.ts'
import { parseBody } from './validation.ts'

/**
 * Mounts the dashboard's routes, then `operations`, the same as under /v1. A cookie and a header together authenticate:
 * browsers send the cookie with requests of any site and to every port of the host, so it alone proves nothing. Every
 * change must come from the server's own origin.
 */
export function dashboardApi(options: {
  readonly dashboard: Dashboard
  readonly operations: Middleware
  readonly isTrustedProxy: IsTrustedProxy
}): Middleware<DashboardState> {
  const { dashboard, operations, isTrustedProxy } = options
  const router = dashboardRouter(dashboard.handlers, isTrustedProxy)
  const own = router.prefix('/dashboard/api').routes() as unknown as Middleware
  return async (ctx, next) => {
    ctx.set('Cache-Control', 'no-store')
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') refuseOtherOrigins(ctx, clientHost(ctx.req, isTrustedProxy))
    const tokens: SessionTokens = {
      cookies: tokensIn(ctx.get('Cookie'), cookieName(isSecure(ctx.req, isTrustedProxy))),
      secret: ctx.get(secretHeader),
    }
    const signedIn = await dashboard.authenticate(tokens)
    const authenticateAgain = async () => (await dashboard.authenticate(tokens))?.principal
    Object.assign(ctx.state, { signedIn, principal: signedIn?.principal, authenticateAgain })
    if (signedIn !== undefined) {
      const { accountId, requestsPerHour } = signedIn.principal
      applyRateLimit(ctx, await dashboard.countRequest(accountId, requestsPerHour), 'dashboard')
    }
    await own(ctx, async () => {
      requireSession(signedIn)
      await operations(ctx, next)
    })
  }
}

interface DashboardState {
  requestId: string
  address: string
  signedIn: SignedIn | undefined
}

type AnyHandler = (call: { readonly [Part in keyof DashboardCall<'session.get'>]: unknown }) => Promise<unknown>

function dashboardRouter(handlers: Dashboard['handlers'], isTrustedProxy: IsTrustedProxy): Router<DashboardState> {
  const router = createRouter<DashboardState>()
  const readBody = jsonBody()
  for (const operation of dashboardOperations) {
    const handle = handlers[operation.name] as AnyHandler
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
          const { signedIn, requestId, address } = ctx.state
          const body = operation.body && parseBody(operation.body, ctx.request.body)
          if (ctx.params['id'] !== undefined && !isId('session', ctx.params['id'])) throw notFound()
          const result = await handle({
            signedIn,
            previousSession: signedIn?.sessionId,
            params: ctx.params,
            body,
            request: { id: requestId, address, userAgent: ctx.get('User-Agent').slice(0, 300) || null },
            setToken: (value: string | null) => setCookie(ctx, value, isSecure(ctx.req, isTrustedProxy)),
            setRetryAfter: (seconds: number) => ctx.set('Retry-After', String(seconds)),
          })
          send(ctx, operation, result)
        },
      ],
    )
  }
  return router
}

function requireSession(signedIn: SignedIn | undefined): void {
  if (signedIn === undefined) throw new ApiError('unauthorized', 'Sign in first.')
}

function send(ctx: Pick<Context, 'status' | 'type' | 'body'>, operation: DashboardOperation, result: unknown): void {
  ctx.status = operation.status
  if (operation.response !== undefined) answerJson(ctx, operation.response.parse(result))
}

/** The values of the session cookies, and the header `X-Fairlead-Session`. */
export interface SessionTokens {
  readonly cookies: readonly string[]
  readonly secret: string
}

export interface SignedIn {
  readonly sessionId: string
  readonly principal: Principal
}

/** The input of a handler of the dashboard's own routes. */
export interface DashboardCall<Name extends DashboardRouteName> {
  readonly signedIn: (typeof dashboardRoutes)[Name]['access'] extends 'user' ? SignedIn : undefined
  readonly previousSession: string | undefined
  readonly params: Readonly<Record<DashboardParam<Name>, string>>
  readonly body: DashboardBodyOutput<Name>
  readonly request: DashboardRequest
  /** Sets the session cookie to a new token, or removes it with `null`. */
  readonly setToken: (token: string | null) => void
  /** Sets `Retry-After`, in seconds, for an answer of `rate_limit_exceeded`. */
  readonly setRetryAfter: (seconds: number) => void
}

export interface DashboardRequest {
  readonly id: string
  readonly address: string
  readonly userAgent: string | null
}

export type DashboardHandlers = {
  readonly [Name in DashboardRouteName]: (call: DashboardCall<Name>) => Promise<DashboardResponse<Name>>
}

export interface Dashboard {
  /** Resolves to the session to which a cookie and the second secret belong, or to `undefined`. */
  readonly authenticate: (tokens: SessionTokens) => Promise<SignedIn | undefined>
  /** Counts a request against the limit of the account's sessions. */
  readonly countRequest: CountRequest
  readonly handlers: DashboardHandlers
}

/** Browsers keep the cookie for at most this long. The server ends sessions earlier. */
const cookieSeconds = 30 * 24 * 60 * 60

/** Limits the lookups for a request with many cookies of this name. */
const maxTokens = 5

/**
 * The header with a session's second secret. The page keeps the secret in the storage of its origin, which other ports
 * do not share. Only its scripts can send the header: a form, a link or an image of another page cannot.
 */
const secretHeader = 'X-Fairlead-Session'

/**
 * Returns the cookie's name. The prefix `__Host-` ties it to this host and HTTPS; browsers refuse it over plain HTTP.
 */
function cookieName(secure: boolean): string {
  return secure ? '__Host-fairlead_session' : 'fairlead_session'
}

/**
 * Returns the cookies of this name, the server's own first. Apps on other ports of this host can add such cookies but
 * cannot replace ours, which has the shortest path; browsers send it last (RFC 6265 §5.4).
 */
function tokensIn(cookies: string, name: string): readonly string[] {
  const pairs = cookies.split(';').map((pair) => pair.trim())
  return pairs
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
    .toReversed()
    .slice(0, maxTokens)
}

/**
 * Sets the session cookie; `null` removes it. `SameSite=Strict` does not break links from other sites: the dashboard's
 * pages are static and public, and their own requests come from the same origin.
 */
function setCookie(ctx: Pick<Context, 'append'>, token: string | null, secure: boolean): void {
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Strict', ...(secure ? ['Secure'] : [])]
  const value = `${cookieName(secure)}=${token ?? ''}`
  ctx.append('Set-Cookie', [value, `Max-Age=${token === null ? 0 : cookieSeconds}`, ...attributes].join('; '))
}

/**
 * Throws `forbidden` for other origins (CSRF); another port is another origin. Browsers send `Sec-Fetch-Site` over
 * HTTPS and to localhost. Over plain HTTP to other machines they send only `Origin`, with every change.
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
