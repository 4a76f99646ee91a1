import type { IncomingMessage } from 'node:http'
import { ReceiverError } from '../errors.ts'
import { methodAnswer, type Respond, type WebhookAnswer } from './exchange.ts'
import { readRawBody } from './raw-body.ts'

/** The part of a Koa context that the middleware uses. Contexts of Koa 2 and 3 are assignable to it. */
export interface KoaContext {
  readonly method: string
  readonly path: string
  /** Node's `IncomingMessage`. Declared by one of its fields, so that the types of this package do not need `@types/node`. */
  readonly req: { readonly headers: Readonly<Record<string, string | string[] | undefined>> }
  /** Body parsers may have stored the unparsed body here. */
  readonly request: object
  readonly app: { emit(event: 'error', error: Error, ctx: unknown): boolean }
  status: number
  body: unknown
  set(name: string, value: string): void
}

/** Generic, so that `app.use` does not add this package's `KoaContext` to the type of the app. */
export type KoaMiddleware = <C extends KoaContext>(ctx: C, next: () => Promise<unknown>) => Promise<unknown>

export interface KoaOptions {
  /** The path of the webhook's address, for example `/webhooks/fairlead`. Requests must match it exactly. */
  readonly path: string
}

/**
 * Creates the middleware. `POST` on `path` is answered by `respond`, another method with 405, and requests for other paths
 * are passed to the next middleware.
 * @throws ReceiverError `invalid_option`
 */
export function koaMiddleware({ path }: KoaOptions, respond: Respond): KoaMiddleware {
  if (typeof path !== 'string' || !/^\/[^?#]*$/.test(path)) {
    throw new ReceiverError('invalid_option', '`path` is not a path. Pass one like "/webhooks/fairlead".')
  }
  return async (ctx, next) => {
    if (ctx.path !== path) return next()
    if (ctx.method !== 'POST') return send(ctx, methodAnswer())
    const defaultReport = (error: ReceiverError) => ctx.app.emit('error', error, ctx)
    const req = ctx.req as IncomingMessage
    return send(ctx, await respond(distinctHeaders(req), readRawBody(req, ctx.request), defaultReport))
  }
}

function send(ctx: KoaContext, { status, headers, body }: WebhookAnswer): void {
  ctx.status = status
  for (const [name, value] of Object.entries(headers)) ctx.set(name, value)
  ctx.body = body
}

// `req.headers` joins repeated headers into one value, which looks like a list. HTTP/2 requests have no `headersDistinct`.
const distinctHeaders = (req: IncomingMessage) => req.headersDistinct ?? req.headers
