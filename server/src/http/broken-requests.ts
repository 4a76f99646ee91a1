import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { ApiError } from '../contract/errors.ts'

/** Requests that Node answers or drops by itself are owed the specification's error body all the same. */
export function answerWhatKoaNeverSees(server: Server): void {
  const answering = new WeakMap<Duplex, { request: IncomingMessage; response: ServerResponse }>()
  server.on('request', (request, response) => answering.set(request.socket, { request, response }))

  server.on('clientError', (error: Error & { code?: string }, socket) => {
    if (!socket.writable || error.code === 'ECONNRESET') {
      socket.destroy()
      return
    }
    const { request, response } = answering.get(socket) ?? {}
    if (request?.complete && response !== undefined && !response.writableFinished && !response.closed) {
      // An earlier request on this connection still gets its answer.
      response.once('close', () => socket.destroy())
      return
    }
    if (request?.complete === false) {
      // It broke off in its body: whoever reads that learns of it when the connection is gone.
      if (response?.headersSent) {
        socket.destroy()
        return
      }
      socket.once('finish', () => socket.destroy())
    }
    const tooLarge = error.code === 'HPE_HEADER_OVERFLOW'
    end(socket, tooLarge ? 'The headers are too large.' : 'The request is not well-formed HTTP.')
  })
  server.on('connect', (_request, socket) => end(socket, 'This is not a proxy.'))
  server.on('checkExpectation', (_request, response) => {
    const refused = new ApiError('invalid_request', 'The header Expect asks for what this server does not do.')
    response.writeHead(400, { 'content-type': 'application/json; charset=utf-8' })
    response.end(JSON.stringify(refused.toBody()))
  })
}

function end(socket: Duplex, message: string): void {
  const body = JSON.stringify(new ApiError('invalid_request', message).toBody())
  const head = [
    'HTTP/1.1 400 Bad Request',
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
