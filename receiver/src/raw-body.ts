import type { IncomingMessage } from 'node:http'
import { isUint8Array } from 'node:util/types'
import { ReceiverError } from './errors.ts'

/** The largest body that is accepted, in bytes. */
export const MAX_BODY = 1_048_576

/** @throws ReceiverError `body_too_large` */
export function requireSize(bytes: number): void {
  if (bytes > MAX_BODY) {
    throw new ReceiverError('body_too_large', `The body is larger than ${MAX_BODY} bytes. Send a smaller one.`)
  }
}

/**
 * The bytes of a request's body as they came over the wire: from the request itself or, where a body parser has been at
 * it before, from what that parser left. Whatever is refused is also drained, so that the answer reaches a client
 * that is still sending and the connection stays usable.
 * @param request the framework's request, where a parser may have left what it read: bytes, decoded text, or nothing
 * @throws ReceiverError `body_too_large`, `request_aborted`, `body_consumed`
 */
export async function readRawBody(req: IncomingMessage, request: object): Promise<Uint8Array> {
  try {
    requireSize(Number(req.headers['content-length'] ?? 0))
    if (req.destroyed && !req.complete) throw aborted()
    return isUntouched(req) ? await collect(req) : takeLeftover(req, request)
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
    // Somebody may have paused the request before; listening alone would then wait for ever.
    req.resume()
  })
}

function takeLeftover(req: IncomingMessage, request: object): Uint8Array {
  const left = leftovers(req, request)
  const bytes = left.find(isUint8Array)
  if (bytes) return bytes
  const text = left.find((value) => typeof value === 'string')
  if (text === undefined) throw consumed(parserOf(request))
  const encoded = Buffer.from(text)
  // U+FFFD may stand for bytes that could not be decoded, and a byte order mark may be gone: then these are not the
  // bytes that were sent.
  const length = req.headers['content-length']
  const sameLength = length === undefined || Number(length) === encoded.length
  if (sameLength && !text.toWellFormed().includes('\uFFFD')) return encoded
  throw consumed('A body parser, which kept it as text that is not what was sent,')
}

/** What body parsers leave: most of them `rawBody`; koa-body up to 6, a symbol on what it parsed. */
function leftovers(req: IncomingMessage, request: object): readonly unknown[] {
  const parsed = property(request, 'body')
  return [property(request, 'rawBody'), property(req, 'rawBody'), property(parsed, Symbol.for('unparsedBody'))]
}

/** koa-body is the one parser that leaves a parsed body and no `rawBody`, not even an empty one. */
const parserOf = (request: object): string =>
  'body' in request && !('rawBody' in request) ? 'A body parser, by the look of it koa-body,' : 'Something'

const property = (value: unknown, name: string | symbol): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined

const consumed = (who: string) =>
  new ReceiverError(
    'body_consumed',
    `${who} read the body before it reached the webhook receiver, and its exact bytes are gone, so the signature ` +
      'cannot be checked. Mount the receiver before the body parser: app.use(receiver.middleware({ path })) above ' +
      'app.use(koaBody()). Where that cannot be: koaBody({ includeUnparsed: true }).',
  )

export const aborted = () =>
  new ReceiverError('request_aborted', 'The connection closed before the whole body had arrived.')
