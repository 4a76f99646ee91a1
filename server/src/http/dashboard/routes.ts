import type { Router } from '@koa/router'
import type { Context } from 'koa'
import { type DashboardOperation, dashboardOperations } from '../../contract/dashboard-operations.ts'
import { ApiError, notFound } from '../../contract/errors.ts'
import { isId } from '../../contract/ids.ts'
import { answerJson } from '../answer-json.ts'
import { jsonBody } from '../body.ts'
import { type IsTrustedProxy, isSecure } from '../client-address.ts'
import { createRouter } from '../router.ts'
import { parseBody } from '../validation.ts'
import type { Dashboard, DashboardCall, SignedIn } from './call.ts'
import { setCookie } from './cookies.ts'

export interface DashboardState {
  requestId: string
  address: string
  signedIn: SignedIn | undefined
}

/** A call without its type parameter, as in operations/handle.ts. */
type AnyHandler = (call: { readonly [Part in keyof DashboardCall<'session.get'>]: unknown }) => Promise<unknown>

/** Mounts the dashboard's own routes: setup, sign-in, password and sessions. */
export function dashboardRouter(
  handlers: Dashboard['handlers'],
  isTrustedProxy: IsTrustedProxy,
): Router<DashboardState> {
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

export function requireSession(signedIn: SignedIn | undefined): void {
  if (signedIn === undefined) throw new ApiError('unauthorized', 'Sign in first.')
}

function send(ctx: Pick<Context, 'status' | 'type' | 'body'>, operation: DashboardOperation, result: unknown): void {
  ctx.status = operation.status
  if (operation.response !== undefined) answerJson(ctx, operation.response.parse(result))
}
