import type { IncomingMessage } from 'node:http'
import { ReceiverError } from './errors.ts'
import { errorAnswer, type WebhookAnswer, type WebhookRequest } from './exchange.ts'
import { readRawBody } from './raw-body.ts'

/** The part of a Koa context that the middleware uses; contexts of Koa 2 and 3 fit. */
export interface KoaContext {
  readonly method: string
  readonly path: string
  readonly req: IncomingMessage
  /** Body parsers leave the unparsed body here as `rawBody`. */
  readonly request: object
  readonly app: { emit(event: 'error', error: Error, ctx: unknown): boolean }
  status: number
  body: unknown
  set(name: string, value: string): void
}

/** Generic, so that `app.use` does not take this package's view of a context into the type of the app. */
export type KoaMiddleware = <C extends KoaContext>(ctx: C, next: () => Promise<unknown>) => Promise<unknown>

export interface KoaOptions {
  /** The path of the webhook's address, for example `/webhooks/fairlead`. Only this path is taken, to the letter. */
  readonly path: string
}

/**
 * Makes the middleware. `POST` on `path` is answered by `receive`, another method on it with 405, and every other
 * path goes to the next middleware.
 * @throws ReceiverError `invalid_option`
 */
export function koaMiddleware(
  { path }: KoaOptions,
  receive: (request: WebhookRequest) => Promise<WebhookAnswer>,
): KoaMiddleware {
  if (typeof path !== 'string' || !/^\/[^?#]*$/.test(path)) {
    throw new ReceiverError('invalid_option', '`path` is not a path. Pass one like "/webhooks/fairlead".')
  }
  return async (ctx, next) => {
    if (ctx.path !== path) return next()
    if (ctx.method !== 'POST') {
      ctx.set('Allow', 'POST')
      return answer(
        ctx,
        errorAnswer(new ReceiverError('method_not_allowed', 'Webhooks are sent here with POST alone.')),
      )
    }
    return answer(
      ctx,
      await receive({ headers: distinctHeaders(ctx.req), body: () => readRawBody(ctx.req, left(ctx)) }),
    )
  }
}

function answer(ctx: KoaContext, { status, body, unreported }: WebhookAnswer): void {
  ctx.status = status
  ctx.body = body
  if (unreported) ctx.app.emit('error', unreported, ctx)
}

// `req.headers` joins a repeated header into one text that looks like a list. HTTP/2 requests have only that.
const distinctHeaders = (req: IncomingMessage) => req.headersDistinct ?? req.headers

const left = ({ request }: KoaContext): unknown => ('rawBody' in request ? request.rawBody : undefined)
