import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer as createAcceptor, type Server as NetServer, Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Gate } from '../../platform/gates.ts'
import { acceptHalfClosed, createServer, ServerResponse as Response } from '../../platform/machine/http.ts'
import type { Log } from '../protocol/log.ts'
import { faultOf } from '../proxy/faults.ts'

/** Handles a request. `upgradeHead` is set when the client wants another protocol: bytes already sent in it. */
export type RequestHandler = (req: IncomingMessage, res: ServerResponse, upgradeHead: Buffer | null) => void

/**
 * Gives a connection to another process, or returns false when this one is to answer it. Until `socket` is destroyed, which
 * says that the other process has it, `takeBack` may be called instead.
 */
export type Share = (socket: Socket, takeBack: () => void) => boolean

/** One listening port, or Unix socket. */
export interface Listener {
  /** Rejects with `code: 'EADDRINUSE'` when the port is taken. */
  listen(address: { host: string; port: number } | { path: string }): Promise<void>
  /**
   * Accepts on a socket that listens already, from another process: at once, because it is accepting connections from
   * the moment in which it arrives.
   */
  adopt(socket: NetServer): void
  /** Answers on a connection that another process has accepted. */
  take(socket: Socket): void
  /** The listening socket, for another process; null while there is none. */
  socket(): NetServer | null
  /** Accepts nothing more, closes unused connections, and all others as soon as `finish` has resolved. */
  close(finish: () => Promise<void>): Promise<void>
  /**
   * Accepts nothing more, and waits until the clients have ended their connections; cuts the rest after `timeoutMs`. At a
   * path, another process has taken it: what waits at the socket is still accepted.
   */
  retire(timeoutMs: number): Promise<void>
}

/** Longer ones are answered with 431, as the API does. An edge lets more through. */
const MAX_HEAD_BYTES = 16 * 1024
const HEADERS_TIMEOUT_MS = 60_000
const KEEP_ALIVE_TIMEOUT_MS = 75_000
/**
 * A client that has ended its side may wait for its answer, or have gone, which looks the same until something is sent to it. So its
 * answer goes on, and is given up after such a pause.
 */
const ENDED_CLIENT_MS = 5_000
/** An edge makes many connections at once; a Unix socket refuses those beyond it, where a port would let them wait. */
const QUEUE_LENGTH = 4_096
const socketOptions = { keepAlive: true, keepAliveInitialDelay: 60_000, noDelay: true } as const

export function createListener({
  handle,
  gate,
  log,
  share,
}: {
  readonly handle: RequestHandler
  readonly gate: Gate
  readonly log: Log
  /** Absent when no other process answers requests. */
  readonly share?: Share | undefined
}): Listener {
  const sockets = createOpenSockets()
  const server = createServer({
    ...socketOptions,
    maxHeaderSize: MAX_HEAD_BYTES,
    headersTimeout: HEADERS_TIMEOUT_MS,
    // An upload may take as long as it takes.
    requestTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    // A request without a body needs no stream.
    optimizeEmptyRequests: true,
    insecureHTTPParser: false,
    shouldUpgradeCallback: mayUpgrade,
  })
  // Node would drop headers beyond its limit, a length among them perhaps; the size of the head is limited anyway.
  server.maxHeadersCount = 0
  acceptHalfClosed(server)

  server.on('connection', (socket) => {
    if (!gate.enter()) {
      socket.destroy()
      return
    }
    socket.on('close', gate.leave)
    socket.once('end', hasten)
    sockets.add(socket)
  })
  server.on('request', onRequest)
  // The app decides whether the client should send its body.
  server.on('checkContinue', onRequest)
  server.on('upgrade', onUpgrade)
  server.on('connect', refuseTunnel)

  // Nothing is read from a connection before it is known which process answers on it.
  const acceptor: NetServer =
    share === undefined ? server : createAcceptor({ ...socketOptions, allowHalfOpen: true, pauseOnConnect: true })
  if (share !== undefined) {
    acceptor.on('connection', (socket) => {
      socket.on('error', ignore)
      if (!isRetiring && share(socket, () => take(socket))) sockets.add(socket)
      else take(socket)
    })
  }

  let isRetiring = false
  let isTaking = false
  function take(socket: Socket): void {
    // Node begins to look for clients that never finish a head when the server listens, and this one may never listen.
    if (!isTaking) server.emit('listening')
    isTaking = true
    socket.allowHalfOpen = true
    server.emit('connection', socket)
    socket.resume()
  }

  function onRequest(req: IncomingMessage, res: ServerResponse): void {
    res.on('error', ignore)
    // A pipelined request waits for its turn; it would not notice that the client has gone in the meantime.
    if (res.socket === null) res.once('socket', () => begin(req, res, null))
    else begin(req, res, null)
  }

  function onUpgrade(req: IncomingMessage, _: unknown, head: Buffer): void {
    const { socket } = req
    socket.on('error', ignore)
    socket.off('end', hasten)
    const res = new Response(req)
    res.on('error', ignore)
    res.shouldKeepAlive = false
    try {
      res.assignSocket(socket)
    } catch {
      // An earlier request on this connection has not been answered yet.
      socket.destroy()
      return
    }
    // Node no longer manages this connection, so the duties of its server are done here.
    socket.on('drain', () => res.emit('drain'))
    res.on('finish', () => socket.destroySoon())
    begin(req, res, head)
  }

  /** A request that cannot be handled costs its own connection and nothing else. */
  function begin(req: IncomingMessage, res: ServerResponse, upgradeHead: Buffer | null): void {
    if (isRetiring) res.shouldKeepAlive = false
    try {
      handle(req, res, upgradeHead)
    } catch (error) {
      log.error({ fault: faultOf(error) }, 'a request was cut: the gateway failed on it')
      req.socket.destroy()
    }
  }

  return {
    listen: (address) =>
      new Promise((resolve, reject) => {
        acceptor.once('error', reject)
        acceptor.listen({ ...address, ...('path' in address && { backlog: QUEUE_LENGTH }) }, () => {
          acceptor.off('error', reject)
          acceptor.on('error', (error) => log.error({ fault: faultOf(error), ...address }, 'a listener failed'))
          resolve()
        })
      }),
    adopt(socket) {
      acceptor.on('error', (error) => log.error({ fault: faultOf(error) }, 'a listener failed'))
      acceptor.listen(socket)
    },
    take,
    socket: () => (acceptor.listening ? acceptor : null),
    async retire(timeoutMs) {
      isRetiring = true
      await stopAccepting(acceptor)
      const cut = setTimeout(sockets.destroyAll, timeoutMs)
      await sockets.none()
      clearTimeout(cut)
    },
    async close(finish) {
      if (acceptor !== server) acceptor.close()
      server.close()
      await finish()
      sockets.destroyAll()
      await sockets.none()
    },
  }
}

function refuseTunnel({ socket }: IncomingMessage): void {
  socket.on('error', ignore)
  socket.write('HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
  socket.destroySoon()
}

/**
 * HTTP/2 over an upgraded connection is not spoken here, an upgrade with a body would leave its end to guesswork, and
 * HTTP/1.0 has none (RFC 9110 §7.8).
 */
function mayUpgrade(req: IncomingMessage): boolean {
  const { headers } = req
  return (
    req.httpVersion === '1.1' &&
    headers['content-length'] === undefined &&
    headers['transfer-encoding'] === undefined &&
    !/\bh2c\b/i.test(headers.upgrade ?? '')
  )
}

function hasten(this: Socket): void {
  this.setTimeout(ENDED_CLIENT_MS)
}

function ignore(): void {}

/** The connections of a listener that are open in this process. */
export interface OpenSockets {
  add(socket: Socket): void
  destroyAll(): void
  /** Resolves as soon as none is open; at once when none is. */
  none(): Promise<void>
}

function createOpenSockets(): OpenSockets {
  const sockets = new Set<Socket>()
  const waiting: (() => void)[] = []
  return {
    add(socket) {
      sockets.add(socket)
      socket.on('close', () => {
        sockets.delete(socket)
        if (sockets.size === 0) for (const resolve of waiting.splice(0)) resolve()
      })
    },
    destroyAll() {
      for (const socket of sockets) socket.destroy()
    },
    async none() {
      if (sockets.size > 0) await new Promise<void>((resolve) => waiting.push(resolve))
    },
  }
}

/** The time after which nothing waits any more at a Unix socket whose path names another one. */
const QUEUE_MS = 1_000

/**
 * Stops accepting connections, and leaves those that are open as they are. On a Unix socket whose path another process has taken,
 * waiting connections are accepted first: the system would reset them.
 */
export async function stopAccepting(acceptor: Server): Promise<void> {
  if (typeof acceptor.address() === 'string') await sleep(QUEUE_MS)
  // The method of HTTP servers would also close connections whose first request has not been read yet.
  if (acceptor.listening) Server.prototype.close.call(acceptor)
}
