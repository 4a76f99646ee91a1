import type { Middleware } from 'koa'
import { clientHost, type IsTrustedProxy, isSecure } from '../client-address.ts'
import { applyRateLimit } from '../rate-limit.ts'
import type { Dashboard, SessionTokens } from './call.ts'
import { cookieName, secretHeader, tokensIn } from './cookies.ts'
import { refuseOtherOrigins } from './origin.ts'
import { type DashboardState, dashboardRouter, requireSession } from './routes.ts'

/**
 * The API for signed-in users: the dashboard's own routes, then `operations`, which are those of /v1. It authenticates by a
 * cookie and a header together. Browsers send the cookie with requests of any site and to every port of the host, so the
 * cookie alone is worth nothing, and every change must come from the server's own origin.
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
