import { randomUUID } from 'node:crypto'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Middleware } from 'koa'
import { ApiError } from '../contract/errors.ts'
import { createGates, type Gate } from '../platform/gates.ts'
import { discardAll, ignoreReceived, isPaused } from '../platform/http.ts'
import { clientAddress, type IsTrustedProxy, isFromEdge, networkOf, peerAddress } from './client-address.ts'
import { apiHeaders } from './middleware.ts'

/** An answer is aborted when its client reads nothing for this long. */
const stalledMs = 60_000

/** The unanswered requests of a connection, oldest first. */
type UnderWay = Set<Pick<IncomingMessage, 'complete'>>

interface Sender {
  readonly name: string
  /** True when many clients share this sender. */
  readonly shared: boolean
}

interface Peer {
  readonly gate: Gate
  /** Oldest first. */
  readonly connections: Map<Socket, UnderWay>
}

/**
 * Limits the connections of a server to `most`. One peer gets at most half, so that it cannot shut out others. Trusted
 * proxies stand for many clients and may use all. A connection from the edge counts for its client from the start of
 * its request. When a peer with a full share connects once more, it loses its oldest idle connection, or else its
 * oldest connection that is still sending a request. So a client that shares an address with a flood is still served.
 *
 * Connections also end when their headers take too long or after a pause between requests (both by Node), and when the
 * client stops reading its answer.
 */
export function limitConnections(
  server: Server,
  { most, isTrustedProxy }: { readonly most: number; readonly isTrustedProxy: IsTrustedProxy },
): void {
  const peers = createPeers(most)
  const underWay = new WeakMap<Socket, UnderWay>()

  server.on('connection', (socket: Socket) => {
    const requests: UnderWay = new Set()
    underWay.set(socket, requests)
    peers.join(socket, senderOf(socket, isTrustedProxy), requests)
    socket.once('close', () => peers.leave(socket))
  })
  /**
   * The edge opens a connection for each request. From the start of the request on, the connection counts for the
   * client that the request names.
   */
  const begin = (request: IncomingMessage, requests: UnderWay): void => {
    const { socket } = request
    if (!isFromEdge(socket)) return
    peers.leave(socket)
    peers.join(socket, { name: networkOf(clientAddress(request, isTrustedProxy)), shared: false }, requests)
  }
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    const requests = underWay.get(request.socket)
    if (requests === undefined) return
    begin(request, requests)
    requests.add(request)
    response.once('close', () => requests.delete(request))
  })
  server.prependListener('upgrade', (request: IncomingMessage) => {
    const requests = underWay.get(request.socket)
    if (requests === undefined) return
    begin(request, requests)
    // A connection to a command counts as an unanswered request.
    requests.add({ complete: true })
  })
  closeStalled(server, (socket) => (underWay.get(socket)?.size ?? 0) > 0)
}

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
      // Otherwise the reader of the body answers.
      if (isAnswered) endSlowly(socket)
      return
    }
    if (!socket.writable || error.code === 'ECONNRESET') {
      socket.destroy()
      return
    }
    if (isAnswered) {
      answerBroken(socket, describe(error.code))
    } else if (response.req.complete) {
      // The malformed bytes follow a complete request, whose answer goes out first.
      response.once('close', () => socket.destroy())
    } else {
      // The reader of the body gets an error.
      if (!response.headersSent) answerBroken(socket, describe(error.code))
      response.req.destroy()
    }
  })
  server.on('connect', (_request, socket) => answerBroken(socket, 'This is not a proxy.'))
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

export function answerBroken(socket: Duplex, message: string): void {
  const body = JSON.stringify(new ApiError('invalid_request', message).toBody())
  const all = { ...headers(), 'Content-Length': Buffer.byteLength(body), Connection: 'close' }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`)
  endSlowly(socket, `HTTP/1.1 400 Bad Request\r\n${lines.join('\r\n')}\r\n\r\n${body}`)
}

/** A client may send for this long after its answer. Closing a connection at once could lose the answer. */
export const lingerMs = 10_000

/**
 * Reads the rest of a body after the answer, for a limited time, so that a client that still sends can read the answer.
 */
export function unreadBodies(): Middleware {
  return async (ctx, next) => {
    ctx.res.once('finish', () => drain(ctx.req))
    await next()
    // The client still sends, even if it asked to close the connection.
    if (!ctx.req.complete) ctx.res.shouldKeepAlive = true
  }
}

/**
 * The most requests of a connection that may wait for earlier answers. Node makes objects for each of them in one turn.
 */
const mostWaiting = 100

/**
 * Runs the requests of one connection one after the other, also when a client sends more before it has the answers (RFC
 * 9112, section 9.3.2), each in a separate turn of the event loop, so that other connections are served in between. A
 * connection with too many waiting requests gets the earlier answers, then 400, and ends.
 */
export function oneByOne(handle: RequestListener): RequestListener {
  const waiting = new WeakMap<Socket, number>()
  return (request, response) => {
    // Node gives a response its socket in its turn.
    if (response.socket !== null) {
      handle(request, response)
      return
    }
    const { socket } = request
    const before = waiting.get(socket) ?? 0
    if (before === mostWaiting) {
      ignoreReceived(socket)
      response.once('socket', () =>
        answerBroken(socket, 'Too many requests wait for their answers on this connection.'),
      )
      return
    }
    waiting.set(socket, before + 1)
    response.once('socket', () => {
      waiting.set(socket, (waiting.get(socket) ?? 1) - 1)
      setImmediate(() => {
        if (!socket.destroyed) handle(request, response)
      })
    })
  }
}

function createPeers(most: number) {
  const newGate = createGates(most)
  const peers = new Map<string, Peer>()
  const names = new WeakMap<Socket, string>()

  const peerOf = ({ name, shared }: Sender): Peer => {
    const known = peers.get(name)
    if (known !== undefined) return known
    const peer = { gate: newGate({ shared }), connections: new Map<Socket, UnderWay>() }
    peers.set(name, peer)
    return peer
  }
  const leave = (socket: Socket): void => {
    const name = names.get(socket) ?? ''
    const peer = peers.get(name)
    if (peer?.connections.delete(socket) === true) peer.gate.leave()
    if (peer?.connections.size === 0) peers.delete(name)
  }
  return {
    leave,
    /** Closes the connection when its sender has a full share and cannot lose another connection. */
    join(socket: Socket, sender: Sender, requests: UnderWay): void {
      const peer = peerOf(sender)
      names.set(socket, sender.name)
      if (!peer.gate.enter()) {
        const replaced = oldestToClose(peer)
        if (replaced === undefined) {
          leave(socket)
          socket.destroy()
          return
        }
        peer.connections.delete(replaced)
        replaced.destroy()
      }
      peer.connections.set(socket, requests)
    },
  }
}

function senderOf(socket: Socket, isTrustedProxy: IsTrustedProxy): Sender {
  if (isFromEdge(socket)) return { name: 'edge', shared: true }
  const address = peerAddress(socket)
  const shared = address !== '' && isTrustedProxy(address)
  return { name: shared ? address : networkOf(address), shared }
}

function oldestToClose({ connections }: Peer): Socket | undefined {
  for (const [socket, requests] of connections) if (requests.size === 0) return socket
  for (const [socket, requests] of connections) {
    if ([...requests].every(({ complete }) => !complete)) return socket
  }
  return undefined
}

/** Closes connections without traffic, unless the server still has to answer. */
function closeStalled(server: Server, isAnswering: (socket: Socket) => boolean): void {
  server.timeout = stalledMs
  server.on('timeout', (socket: Socket) => {
    if (isAnswering(socket) && socket.writableLength === 0) socket.setTimeout(stalledMs)
    else socket.destroy()
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

function drain(request: IncomingMessage): void {
  const { socket } = request
  if (request.complete || socket.destroyed) return
  // Bytes behind a refused body are never read.
  if (request.destroyed) {
    endSlowly(socket)
    return
  }
  const late = setTimeout(() => socket.destroy(), lingerMs)
  // A body that is refused later closes its request, and its connection continues.
  const stop = () => {
    clearTimeout(late)
    socket.off('close', stop)
  }
  request.once('end', stop)
  socket.once('close', stop)
  request.resume()
}

function endSlowly(socket: Duplex, lastText?: string): void {
  socket.end(lastText)
  const late = setTimeout(() => socket.destroy(), lingerMs)
  socket.once('close', () => clearTimeout(late))
}
