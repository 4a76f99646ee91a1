import type { ClientRequest } from 'node:http'
import { connect, type Socket } from 'node:net'
import { readLastBytes, request } from '../../platform/http.ts'

/**
 * Unused connections end sooner than in common servers (Gunicorn 2 s, Node and Uvicorn 5 s), so that the app rarely
 * closes a connection just when it is used again.
 */
const IDLE_MS = 1_500
const CONNECT_TIMEOUT_MS = 10_000
const TCP_KEEP_ALIVE_MS = 60_000
const MAX_RESPONSE_HEADER_BYTES = 64 * 1024

export interface Outgoing {
  readonly request: ClientRequest
  readonly socket: Socket
  readonly reused: boolean
  unconnected(): boolean
  /** Calls back as soon as the connection is established; at once when it already is. */
  whenConnected(callback: () => void): void
  unanswered(): boolean
}

export interface OutgoingHead {
  readonly method: string
  readonly path: string
  /** Alternating names and values. Only the framing that they ask for is added. */
  readonly headers: readonly string[]
}

export interface Connections {
  /**
   * Starts a request; the caller ends it. `maxIdleMs` limits the age of an unused connection; 0 requires a new
   * connection, and `exclusive` one that is never reused. Throws when the head is not valid HTTP.
   */
  send(head: OutgoingHead, options: { maxIdleMs: number; exclusive: boolean }): Outgoing
  /** Closes unused connections at once, others when they are free. */
  close(): void
}

interface Shared {
  readonly socket: Socket
  free: boolean
  /** The value of `performance.now()` since which no request uses the connection. */
  freeSince: number
}

/**
 * Creates the keep-alive connections to one app. Each carries one request at a time, and their number has no limit.
 *
 * This replaces `http.Agent`, whose bookkeeping costs a proxy a measurable part of its speed. `http.request` gets the
 * connection by `createConnection`, and `free` brings it back.
 */
export function createConnections({ host, port }: { host: string; port: number }): Connections {
  const unused: Shared[] = []
  let closed = false

  function open({ allowHalfOpen = false } = {}): { socket: Socket; isBroken: () => boolean } {
    const socket = connect({
      host,
      port,
      allowHalfOpen,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
    })
    socket.setTimeout(CONNECT_TIMEOUT_MS)
    socket.once('connect', () => socket.setTimeout(0))
    socket.on('timeout', () => {
      if (socket.connecting) socket.destroy(new Error('no connection in time'))
    })
    // A running request gets the error itself; between requests, nothing else listens.
    socket.on('error', () => {})
    return { socket, isBroken: readLastBytes(socket) }
  }

  function openShared(): Socket {
    const { socket, isBroken } = open()
    const connection: Shared = { socket, free: false, freeSince: 0 }
    const leave = () => {
      if (!connection.free) return
      connection.free = false
      unused.splice(unused.indexOf(connection), 1)
      socket.destroy()
    }
    socket.on('free', () => {
      if (closed || !socket.writable || isBroken()) {
        socket.destroy()
        return
      }
      connection.free = true
      connection.freeSince = performance.now()
      unused.push(connection)
      socket.setTimeout(IDLE_MS)
    })
    // Unsolicited bytes must not become the answer to the next request.
    socket.on('data', leave)
    socket.on('timeout', leave)
    socket.on('end', leave)
    socket.on('close', leave)
    return socket
  }

  function take(maxIdleMs: number): Socket | null {
    if (maxIdleMs === 0) return null
    for (let connection = unused.pop(); connection !== undefined; connection = unused.pop()) {
      const { socket, freeSince } = connection
      connection.free = false
      const isOld = maxIdleMs < IDLE_MS && performance.now() - freeSince >= maxIdleMs
      if (socket.writable && !isOld) {
        socket.setTimeout(0)
        return socket
      }
      socket.destroy()
      if (isOld) return null
    }
    return null
  }

  return {
    send({ method, path, headers }, { maxIdleMs, exclusive }) {
      const kept = exclusive ? null : take(maxIdleMs)
      const socket = kept ?? (exclusive ? open({ allowHalfOpen: true }).socket : openShared())
      const receivedBefore = socket.bytesRead
      let connected = kept !== null
      if (!connected) socket.once('connect', () => (connected = true))
      try {
        const outgoing = request({
          method,
          path,
          headers,
          createConnection: () => socket,
          maxHeaderSize: MAX_RESPONSE_HEADER_BYTES,
        })
        // Without an agent, Node would close the connection after one request.
        outgoing.shouldKeepAlive = !exclusive
        return {
          request: outgoing,
          socket,
          reused: kept !== null,
          unconnected: () => !connected,
          whenConnected(callback) {
            if (connected) callback()
            else socket.once('connect', callback)
          },
          unanswered: () => socket.bytesRead === receivedBefore,
        }
      } catch (error) {
        socket.destroy()
        throw error
      }
    },
    close() {
      closed = true
      for (const { socket } of unused.splice(0)) socket.destroy()
    },
  }
}
