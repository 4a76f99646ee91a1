import { contentLength } from '../http1/raw-headers.ts'
import { trailerFields } from '../http1/response-head.ts'
import type { Outgoing } from '../upstream/connections.ts'
import { endWith } from './end-with.ts'
import { type Exchange, settle } from './state.ts'

/** Passes the client's body on to the app, as fast as the app takes it. */
export function relayRequestBody(exchange: Exchange, { request, socket }: Outgoing): void {
  const { req, guarded } = exchange
  const length = contentLength(exchange.head.headers)
  let flowing = false
  const resume = guarded(() => req.resume())
  const onEnd = guarded(() => settle(exchange))
  request.on('drain', resume)
  // Of a connection whose answer is complete Node no longer passes this on, although the app may read the rest of the body.
  socket.on('drain', resume)
  request.on('close', () => socket.off('drain', resume))
  request.on('finish', onEnd)
  // The rest of the body is not needed, but the client may read the answer only after it has sent all of it.
  request.on('close', resume)
  req.on(
    'data',
    guarded((chunk: Buffer) => {
      flowing = true
      if (request.destroyed) return
      if (chunk.length === length) endWith(request, chunk)
      else if (!request.write(chunk)) req.pause()
    }),
  )
  req.on(
    'end',
    guarded(() => {
      // A single chunk that held the whole body has ended the request already.
      if (request.destroyed || request.writableEnded) return
      request.addTrailers(trailerFields(req.rawTrailers))
      request.end()
    }),
  )
  // When the body is late, the app sees the head before its first byte, and may answer to that alone.
  setImmediate(
    guarded(() => {
      if (!flowing && !request.destroyed) request.flushHeaders()
    }),
  )
}
