import type { IncomingMessage } from 'node:http'
import type { Middleware } from 'koa'
import koaBody from 'koa-body'
import { ApiError } from '../contract/errors.ts'

const limitBytes = 1024 * 1024

/** Reads the JSON body into `ctx.request.body` (`{}` when there is none); anything else is `invalid_request`. */
export function jsonBody(): Middleware {
  const parse = koaBody({
    json: true,
    multipart: false,
    urlencoded: false,
    text: false,
    jsonLimit: limitBytes,
    onError: (error) => {
      throw describe(error)
    },
  })
  return async (ctx, next) => {
    if (hasBody(ctx.req) && !ctx.is('application/json')) {
      throw new ApiError('invalid_request', 'Send the body as JSON with Content-Type: application/json.', {
        field: 'content-type',
      })
    }
    await parse(ctx, async () => {
      // No body at all is an empty object: what it lacks is then named field by field.
      ctx.request.body ??= {}
      await next()
    })
  }
}

function hasBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0
}

function describe(error: Error & { type?: string; code?: string }): ApiError {
  if (error.type === 'entity.too.large') {
    return new ApiError('invalid_request', `The body is larger than ${limitBytes} bytes.`, { max_bytes: limitBytes })
  }
  if (error instanceof SyntaxError) {
    return new ApiError('invalid_request', 'The body is not valid JSON; it must be a JSON object.', { field: 'body' })
  }
  return new ApiError('invalid_request', 'The body could not be read.', { field: 'body' })
}
