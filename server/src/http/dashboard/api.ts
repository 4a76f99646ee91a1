import type { Middleware } from 'koa'
import { clientHost, type IsTrustedProxy, isSecure } from '../client-address.ts'
import type { Dashboard, SignedIn } from './call.ts'
import { cookieName, tokensIn } from './cookies.ts'
import { refuseOtherOrigins } from './origin.ts'
import { type DashboardState, dashboardRouter, requireSession } from './routes.ts'

/**
 * The API for signed-in users: the dashboard's own routes, then `operations`, which are those of /v1. It authenticates
 * by a cookie, which browsers send with requests of any site, so every change must come from the server's own origin.
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

/** Resolves to the session of the first valid token. */
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
