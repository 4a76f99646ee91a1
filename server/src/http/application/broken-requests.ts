import { randomUUID } from 'node:crypto'
import type { Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { ApiError } from '../../contract/errors.ts'
import { discardAll, isPaused } from '../../platform/machine/http.ts'
import { apiHeaders } from '../security-headers.ts'
import { endSlowly } from './unread-bodies.ts'

/**
 * Answers the requests that Node handles before Koa sees them (malformed HTTP, `CONNECT`, `Expect`) with the error body
 * of the specification.
 */
export function answerBrokenRequests(server: Server): void {
  const answering = new WeakMap<Duplex, ServerResponse>()
  server.on('request', (request, response) => answering.set(request.socket, response))

  server.on('clientError', (error: Error & { code?: string }, socket) => {
    const response = answering.get(socket)
    const isAnswered = response === undefined || response.writableFinished || response.closed
    if (isPaused(error)) {
      discardAll(socket)
      // Otherwise the readers of the body answer.
      if (isAnswered) endSlowly(socket)
      return
    }
    if (!socket.writable || error.code === 'ECONNRESET') {
      socket.destroy()
      return
    }
    if (isAnswered) {
      end(socket, describe(error.code))
    } else if (response.req.complete) {
      // The malformed bytes follow a complete request: let its answer go out first.
      response.once('close', () => socket.destroy())
    } else {
      // The body is malformed: destroy the request so that its reader gets an error.
      if (!response.headersSent) end(socket, describe(error.code))
      response.req.destroy()
    }
  })
  server.on('connect', (_request, socket) => end(socket, 'This is not a proxy.'))
  server.on('checkExpectation', (_request, response) => {
    const refused = new ApiError(
      'invalid_request',
      'This server does not support the expectation in the header Expect.',
    )
    const body = JSON.stringify(refused.toBody())
    response.writeHead(400, { ...headers(), 'Content-Length': Buffer.byteLength(body) })
    response.end(body)
  })
}

function describe(code: string | undefined): string {
  if (code === 'HPE_HEADER_OVERFLOW') return 'The headers are too large.'
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'The request took too long to arrive.'
  return 'The request is not well-formed HTTP.'
}

function headers(): Record<string, string> {
  return { ...apiHeaders, 'Content-Type': 'application/json; charset=utf-8', 'X-Request-Id': randomUUID() }
}

function end(socket: Duplex, message: string): void {
  const body = JSON.stringify(new ApiError('invalid_request', message).toBody())
  const all = { ...headers(), 'Content-Length': Buffer.byteLength(body), Connection: 'close' }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`)
  endSlowly(socket, `HTTP/1.1 400 Bad Request\r\n${lines.join('\r\n')}\r\n\r\n${body}`)
}
