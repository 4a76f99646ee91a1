import type { IncomingMessage } from 'node:http'
import { isUint8Array } from 'node:util/types'
import { ReceiverError } from '../errors.ts'

/** The largest body that is accepted, in bytes. */
export const MAX_BODY = 1_048_576

/** @throws ReceiverError `body_too_large` */
export function requireSize(bytes: number): void {
  if (bytes > MAX_BODY) {
    throw new ReceiverError('body_too_large', `The body is larger than ${MAX_BODY} bytes. Send a smaller one.`)
  }
}

/**
 * Returns the bytes of a request's body as they were sent: from the request itself or, when a body parser has consumed
 * it, from the parser's copy. A rejected request is drained, so that a client that is still sending gets the answer and
 * the connection stays usable.
 * @param request the framework's request, where a parser may have stored bytes, decoded text or nothing
 * @throws ReceiverError `body_too_large`, `request_aborted`, `body_consumed`
 */
export async function readRawBody(req: IncomingMessage, request: object): Promise<Uint8Array> {
  try {
    requireSize(Number(req.headers['content-length'] ?? 0))
    if (req.destroyed && !req.complete) throw aborted()
    return isUntouched(req) ? await collect(req) : readStored(req, request)
  } catch (error) {
    req.resume()
    throw error
  }
}

function isUntouched(req: IncomingMessage): boolean {
  return req.readable && !req.readableDidRead && req.readableEncoding === null && req.listenerCount('readable') === 0
}

function collect(req: IncomingMessage): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = []
    let size = 0
    const settle = (finish: () => void) => {
      req.off('data', onData).off('end', onEnd).off('error', onAborted).off('close', onAborted)
      finish()
    }
    const onData = (chunk: Uint8Array) => {
      size += chunk.length
      try {
        requireSize(size)
      } catch (error) {
        settle(() => reject(error))
        return
      }
      chunks.push(chunk)
    }
    const onEnd = () =>
      settle(() => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, size)))
    const onAborted = () => settle(() => reject(aborted()))
    req.on('data', onData).on('end', onEnd).on('error', onAborted).on('close', onAborted)
    // Needed when the request was paused before: adding listeners does not resume it.
    req.resume()
  })
}

function readStored(req: IncomingMessage, request: object): Uint8Array {
  const stored = storedBodies(req, request)
  const bytes = stored.find(isUint8Array)
  if (bytes) return bytes
  const text = stored.find((value) => typeof value === 'string')
  if (text === undefined) throw consumed(parserOf(request))
  const encoded = Buffer.from(text)
  // Decoding loses information: invalid bytes become U+FFFD, and a byte order mark is removed. Then these are not the
  // sent bytes.
  const length = req.headers['content-length']
  const sameLength = length === undefined || Number(length) === encoded.length
  if (sameLength && !text.toWellFormed().includes('\uFFFD')) return encoded
  throw consumed('A body parser, which kept it as text that differs from what was sent,')
}

/** Returns the values that body parsers may have stored. Most set `rawBody`; koa-body up to 6 a symbol on the parsed body. */
function storedBodies(req: IncomingMessage, request: object): readonly unknown[] {
  const parsed = property(request, 'body')
  return [property(request, 'rawBody'), property(req, 'rawBody'), property(parsed, Symbol.for('unparsedBody'))]
}

/** Names the parser for an error message. Only koa-body sets a parsed `body` without any property `rawBody`. */
const parserOf = (request: object): string =>
  'body' in request && !('rawBody' in request) ? 'A body parser, probably koa-body,' : 'Something'

const property = (value: unknown, name: string | symbol): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined

const consumed = (reader: string) =>
  new ReceiverError(
    'body_consumed',
    `${reader} read the body before it reached the webhook receiver, and its exact bytes are gone, so the signature ` +
      'cannot be checked. Mount the receiver before the body parser: app.use(receiver.middleware({ path })) above ' +
      'app.use(koaBody()). Where that is not possible: koaBody({ includeUnparsed: true }).',
  )

export const aborted = () =>
  new ReceiverError('request_aborted', 'The connection closed before the whole body had arrived.')
