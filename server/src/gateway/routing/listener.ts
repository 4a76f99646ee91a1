import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer as createAcceptor, type Server as NetServer, Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Gate } from '../../platform/gates.ts'
import { acceptHalfClosed, createServer, ServerResponse as Response } from '../../platform/http.ts'
import type { Log } from '../protocol/log.ts'
import { faultOf } from '../proxy/faults.ts'

/** `upgradeHead` is null unless the client asks for another protocol: then it has the bytes already sent in it. */
export type RequestHandler = (req: IncomingMessage, res: ServerResponse, upgradeHead: Buffer | null) => void

/**
 * Gives a connection to another process. Returns false when this process should answer it. The other process has taken
 * the connection once `socket` is destroyed. Until then, `takeBack` may be called instead.
 */
export type Share = (socket: Socket, takeBack: () => void) => boolean

export interface Listener {
  /** Rejects with code `EADDRINUSE` when the port is taken. */
  listen(address: { host: string; port: number } | { path: string }): Promise<void>
  /**
   * Accepts connections on a socket that another process opened. Call it at once, because the socket accepts
   * connections from then on.
   */
  adopt(socket: NetServer): void
  /** Answers a connection that another process has accepted. */
  take(socket: Socket): void
  /** The listening socket, to be sent to another process; null when there is none. */
  socket(): NetServer | null
  /** Stops accepting, closes unused connections at once, and closes all others as soon as `finish` has resolved. */
  close(finish: () => Promise<void>): Promise<void>
  /**
   * Stops accepting, and waits until the clients have closed their connections. Cuts the rest after `timeoutMs`. On a
   * Unix socket whose path another process has taken, connections in the queue are still accepted.
   */
  retire(timeoutMs: number): Promise<void>
}

/** Longer heads get 431, as in the API. An edge accepts longer heads. */
const MAX_HEAD_BYTES = 16 * 1024
const HEADERS_TIMEOUT_MS = 60_000
const KEEP_ALIVE_TIMEOUT_MS = 75_000
/**
 * A client that has closed its side may still wait for its answer, or may be gone: only sending tells. The answer is
 * given up after this time without progress.
 */
const ENDED_CLIENT_MS = 5_000
/**
 * An edge opens many connections at once. Beyond this queue, a Unix socket refuses them, whereas a port lets them wait.
 */
const QUEUE_LENGTH = 4_096
/**
 * At most this many requests of a connection wait for earlier answers, because they take memory. No browser and no
 * proxy sends so many.
 */
const MOST_WAITING = 100
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
  /** Absent when no other process answers. */
  readonly share?: Share | undefined
}): Listener {
  const sockets = createOpenSockets()
  const server = createServer({
    ...socketOptions,
    maxHeaderSize: MAX_HEAD_BYTES,
    headersTimeout: HEADERS_TIMEOUT_MS,
    // Uploads have no deadline.
    requestTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    // A request without a body needs no stream.
    optimizeEmptyRequests: true,
    insecureHTTPParser: false,
    shouldUpgradeCallback: mayUpgrade,
  })
  // Beyond its limit, Node drops headers, perhaps even Content-Length. The size of the head is limited anyway.
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

  // Reads nothing until it is decided which process answers.
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
    // Node looks for clients that never finish a head only on a server that listens, which this one may never do.
    if (!isTaking) server.emit('listening')
    isTaking = true
    socket.allowHalfOpen = true
    server.emit('connection', socket)
    socket.resume()
  }

  const waiting = new WeakMap<Socket, number>()
  function onRequest(req: IncomingMessage, res: ServerResponse): void {
    res.on('error', ignore)
    const { socket } = req
    if (res.socket !== null) {
      begin(req, res, null)
      return
    }
    // A pipelined request waits for its turn, and would not notice that its client has gone.
    const before = waiting.get(socket) ?? 0
    if (before === MOST_WAITING) {
      socket.destroy()
      return
    }
    waiting.set(socket, before + 1)
    res.once('socket', () => {
      waiting.set(socket, (waiting.get(socket) ?? 1) - 1)
      begin(req, res, null)
    })
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
      // An earlier request is unanswered.
      socket.destroy()
      return
    }
    // Node no longer manages this connection.
    socket.on('drain', () => res.emit('drain'))
    res.on('finish', () => socket.destroySoon())
    begin(req, res, head)
  }

  /** A request that cannot be handled loses only its own connection. */
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
 * False for HTTP/2, which the gateway does not speak; for an upgrade with a body, whose end would be a guess; and for
 * HTTP/1.0, which has no upgrades (RFC 9110 §7.8).
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

export interface OpenSockets {
  add(socket: Socket): void
  destroyAll(): void
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

/** A Unix socket gets no more connections after this time, once its path leads to another socket. */
const QUEUE_MS = 1_000

/**
 * Stops accepting connections, and does not touch open connections. A Unix socket whose path another process has taken
 * first accepts the waiting connections, which the system would reset.
 */
export async function stopAccepting(acceptor: Server): Promise<void> {
  if (typeof acceptor.address() === 'string') await sleep(QUEUE_MS)
  // `close` of HTTP servers would also close connections whose first request was not read yet.
  if (acceptor.listening) Server.prototype.close.call(acceptor)
}
