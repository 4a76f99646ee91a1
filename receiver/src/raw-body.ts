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
 * @param left what a parser left as `rawBody`: bytes, decoded text, or nothing
 * @throws ReceiverError `body_too_large`, `request_aborted`, `body_consumed`
 */
export async function readRawBody(req: IncomingMessage, left: unknown): Promise<Uint8Array> {
  try {
    requireSize(Number(req.headers['content-length'] ?? 0))
    if (req.destroyed && !req.complete) throw aborted()
    return isUntouched(req) ? await collect(req) : takeLeftover(left, req.headers['content-length'])
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

function takeLeftover(left: unknown, contentLength: string | undefined): Uint8Array {
  if (isUint8Array(left)) return left
  if (typeof left === 'string') {
    const bytes = Buffer.from(left)
    // U+FFFD may stand for bytes that could not be decoded, and a byte order mark may be gone: then these are not the
    // bytes that were sent.
    const sameLength = contentLength === undefined || Number(contentLength) === bytes.length
    if (sameLength && !left.toWellFormed().includes('\uFFFD')) return bytes
  }
  throw new ReceiverError(
    'body_consumed',
    'The body was read before it reached the webhook receiver, and its exact bytes are gone, so the signature cannot be checked. ' +
      'Mount the receiver before the body parser: app.use(receiver.middleware({ path })) above app.use(koaBody()).',
  )
}

const aborted = () => new ReceiverError('request_aborted', 'The connection closed before the whole body had arrived.')
