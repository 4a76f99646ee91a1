import type { IncomingMessage } from 'node:http'
import type { Context, Middleware, Request } from 'koa'
import koaBody from 'koa-body'
import { ApiError, invalidRequest } from '../contract/errors.ts'
import { TooManyPieces } from '../platform/http.ts'
import { ownTurn } from '../platform/turns.ts'

const limitBytes = 1024 * 1024
const deadlineMs = 20_000

/** Reads the JSON body into `ctx.request.body`, or `{}` when there is none. Throws `invalid_request`. */
export function jsonBody(): Middleware {
  const parse = koaBody({
    // Parsed below, after a check of the text.
    text: true,
    textTypes: ['application/json'],
    json: false,
    multipart: false,
    urlencoded: false,
    textLimit: limitBytes,
    // Latin-1 keeps every byte, so that invalid UTF-8 is reported below and not replaced silently.
    encoding: 'binary',
    onError: (error, ctx) => {
      throw describe(ctx.req.errored ?? error)
    },
  })
  return async (ctx, next) => {
    if (!hasBody(ctx.req)) {
      // An empty object, so that the error names the required fields.
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

export interface BodyWatch {
  readonly idleTimeoutMs: number
  readonly onBytes?: (count: number) => void
  /** Called with the problem in words when the body will never be complete. */
  readonly fail: (problem: string) => void
}

/** Fails when a body stalls or its connection closes before the end. Returns a function that stops watching. */
export function watchBody(message: IncomingMessage, { idleTimeoutMs, onBytes, fail }: BodyWatch): () => void {
  const idle = setTimeout(() => fail(`no bytes came for ${idleTimeoutMs / 1000} seconds`), idleTimeoutMs)
  const onData = (chunk: Buffer) => {
    idle.refresh()
    onBytes?.(chunk.length)
  }
  const onGone = () => {
    if (message.errored instanceof TooManyPieces) fail(message.errored.message)
    else if (!message.readableEnded) fail('the connection was closed before the upload was complete')
  }
  message.on('data', onData)
  // Stays registered: a connection may break at any time, and an error without a listener ends the process.
  message.on('error', onGone)
  message.on('close', onGone)
  if (message.destroyed) onGone()
  return () => {
    clearTimeout(idle)
    message.off('data', onData)
    message.off('close', onGone)
  }
}

/**
 * Answers with JSON. Koa gets a text, because it compares any other body with `Response`, and reading that name loads
 * Node's whole fetch client (see `platform/http.ts`).
 */
export function answerJson(ctx: Pick<Context, 'type' | 'body'>, value: unknown): void {
  ctx.type = 'json'
  ctx.body = JSON.stringify(value)
}

/** Bodies below this size take a negligible time. Larger bodies are parsed one after the other. */
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

/** Far more than the API needs. The limit stops bodies that would exhaust the stack. */
const maxDepth = 32
/** Bodies of the API have some hundred values. Parsing and checking values blocks the event loop. */
const maxValues = 2_000
/** A dotenv file is the longest text of the API. Escapes count as written. */
const maxTextLength = 200_000

/** `field` is the path of the member, or `body`. */
export interface JsonTextProblem {
  readonly field: string
  readonly message: string
}

interface Level {
  /** `undefined` in an array. */
  readonly keys: Set<string> | undefined
  /** The key or array index of the value that is being read. */
  at: string | number
  keyNext: boolean
}

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c]
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]

/**
 * Returns the first problem that `JSON.parse` does not report: a duplicate key, of which other parsers may take the
 * other value (RFC 8259 §4), `__proto__`, too many levels or values, or too long a text. The result for a text that is
 * not JSON has no meaning.
 */
export function jsonTextProblem(text: string): JsonTextProblem | undefined {
  const levels: Level[] = []
  let values = 1
  for (let at = 0; at < text.length; at++) {
    const level = levels.at(-1)
    switch (text.charCodeAt(at)) {
      case quote: {
        const end = stringEnd(text, at)
        if (end - at > maxTextLength) {
          return { field: 'body', message: `must have no text of more than ${maxTextLength} characters` }
        }
        if (level?.keys !== undefined && level.keyNext) {
          const key = stringIn(text.slice(at, end + 1))
          if (key === undefined) return undefined
          level.at = key
          level.keyNext = false
          if (level.keys.has(key)) return { field: pathOf(levels), message: 'must be given once' }
          if (key === '__proto__') return { field: 'body', message: 'must not have a member named __proto__' }
          level.keys.add(key)
        }
        at = end
        break
      }
      case openBrace:
        levels.push({ keys: new Set(), at: '', keyNext: true })
        values++
        break
      case openBracket:
        levels.push({ keys: undefined, at: 0, keyNext: false })
        values++
        break
      case closeBrace:
      case closeBracket:
        levels.pop()
        break
      case comma:
        values++
        if (level !== undefined) {
          if (level.keys === undefined) level.at = Number(level.at) + 1
          else level.keyNext = true
        }
        break
    }
    if (levels.length > maxDepth) return { field: 'body', message: `must be nested at most ${maxDepth} levels deep` }
    if (values > maxValues) return { field: 'body', message: `must have at most ${maxValues} values` }
  }
  return undefined
}

function pathOf(levels: readonly Level[]): string {
  return levels.map((level) => String(level.at)).join('.')
}

function stringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const character = text.charCodeAt(at)
    if (character === quote) return at
    if (character === backslash) at++
  }
  return text.length
}

function stringIn(text: string): string | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
