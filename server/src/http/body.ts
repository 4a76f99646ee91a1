import type { IncomingMessage } from 'node:http'
import type { Context, Middleware, Request } from 'koa'
import koaBody from 'koa-body'
import { ApiError, invalidRequest } from '../contract/errors.ts'
import { TooManyPieces } from '../platform/machine/http.ts'
import { ownTurn } from '../platform/turns.ts'
import { jsonTextProblem } from './json-text.ts'

const limitBytes = 1024 * 1024
/** A body must have arrived completely by then. */
const deadlineMs = 20_000

/** Reads the JSON body into `ctx.request.body`, or `{}` when there is none. Throws `invalid_request`. */
export function jsonBody(): Middleware {
  const parse = koaBody({
    // Parsed below, once it is known that this takes no longer than for other texts of its size.
    text: true,
    textTypes: ['application/json'],
    json: false,
    multipart: false,
    urlencoded: false,
    textLimit: limitBytes,
    // Latin-1 keeps every byte, so that invalid UTF-8 is reported below instead of silently replaced.
    encoding: 'binary',
    onError: (error, ctx) => {
      throw describe(ctx.req.errored ?? error)
    },
  })
  return async (ctx, next) => {
    if (!hasBody(ctx.req)) {
      // Treat a missing body as an empty object, so that the error names the required fields.
      ctx.request.body = {}
      return next()
    }
    checkHeaders(ctx)
    await withDeadline(parse(ctx, async () => undefined))
    if (String(ctx.request.body ?? '').length > smallBytes) await ownTurn()
    ctx.request.body = readJson(Buffer.from(String(ctx.request.body ?? ''), 'latin1'))
    return next()
  }
}

/** Bodies below this size take no time that anybody notices. Larger ones are parsed one after the other. */
const smallBytes = 16 * 1024

async function withDeadline(reading: Promise<unknown>): Promise<void> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new ApiError('invalid_request', 'The body took too long to arrive.', { field: 'body' })),
    deadlineMs,
  )
  try {
    await Promise.race([reading, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

function hasBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0
}

function checkHeaders(ctx: Context): void {
  if (!ctx.is('application/json')) {
    throw new ApiError('invalid_request', 'Send the body as JSON with Content-Type: application/json.', {
      field: 'content-type',
    })
  }
  if (!/^(utf-8)?$/i.test(ctx.request.charset)) {
    throw invalidRequest({ field: 'content-type', message: 'must not name a charset other than utf-8' })
  }
  if (!/^(identity)?$/i.test(ctx.get('Content-Encoding'))) {
    throw invalidRequest({ field: 'content-encoding', message: 'must not be set: compressed bodies are not accepted' })
  }
}

function readJson(bytes: Buffer): NonNullable<Request['body']> {
  if (bytes.length === 0) return {}
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new ApiError('invalid_request', 'The body is not valid UTF-8.', { field: 'body' })
  }
  const problem = jsonTextProblem(text)
  if (problem !== undefined) throw invalidRequest(problem)
  try {
    return objectIn(JSON.parse(text))
  } catch (error) {
    throw describe(error as Error)
  }
}

function objectIn(value: NonNullable<Request['body']> | null): NonNullable<Request['body']> {
  if (typeof value !== 'object' || value === null) throw new SyntaxError('neither an object nor an array')
  return value
}

function describe(error: Error & { type?: string; code?: string }): ApiError {
  if (error.type === 'entity.too.large') {
    return new ApiError('invalid_request', `The body is larger than ${limitBytes} bytes.`, {
      field: 'body',
      max_bytes: limitBytes,
    })
  }
  if (error instanceof TooManyPieces) return invalidRequest({ field: 'body', message: error.message })
  if (error instanceof SyntaxError) {
    return new ApiError('invalid_request', 'The body is not valid JSON; it must be a JSON object.', { field: 'body' })
  }
  return new ApiError('invalid_request', 'The body could not be read.', { field: 'body' })
}
