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
  /** The path of the webhook's address, for example `/webhooks/fairlead`. Requests must match it exactly. Default: any path. */
  readonly path?: string
}

/**
 * Creates the middleware. `POST` on `path`, or on any path without it, is answered by `respond`, another method with 405, and
 * requests for other paths are passed to the next middleware.
 * @throws ReceiverError `invalid_option`
 */
export function koaMiddleware(options: KoaOptions, respond: Respond): KoaMiddleware {
  const path = pathIn(options)
  return async (ctx, next) => {
    if (path !== undefined && ctx.path !== path) return next()
    if (ctx.method !== 'POST') return send(ctx, methodAnswer())
    const defaultReport = (error: ReceiverError) => ctx.app.emit('error', error, ctx)
    const req = ctx.req as IncomingMessage
    return send(ctx, await respond(distinctHeaders(req), readRawBody(req, ctx.request), defaultReport))
  }
}

function pathIn(options: unknown): string | undefined {
  if (typeof options !== 'object' || options === null) {
    throw new ReceiverError(
      'invalid_option',
      'The argument is not an object. Pass { path: "/webhooks/fairlead" }, or nothing for any path.',
    )
  }
  const { path } = options as { readonly path?: unknown }
  if (path === undefined || (typeof path === 'string' && /^\/[^?#]*$/.test(path))) return path
  throw new ReceiverError('invalid_option', '`path` is not a path. Pass one like "/webhooks/fairlead".')
}

function send(ctx: KoaContext, { status, headers, body }: WebhookAnswer): void {
  ctx.status = status
  for (const [name, value] of Object.entries(headers)) ctx.set(name, value)
  ctx.body = body
}

// `req.headers` joins repeated headers into one value, which looks like a list. HTTP/2 requests have no `headersDistinct`.
const distinctHeaders = (req: IncomingMessage) => req.headersDistinct ?? req.headers
