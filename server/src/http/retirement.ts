import { once } from 'node:events'
import type { Server, ServerResponse } from 'node:http'
import { Server as NetServer } from 'node:net'
import type { EdgeListener } from './edge-listener.ts'

/** The end of a server, because another replaces it or because it stops. */
export interface Retirement {
  /** Aborts when the retirement begins, which ends followed logs. */
  readonly signal: AbortSignal
  /**
   * Stops accepting, and finishes all accepted requests. Every further answer closes its connection. Resolves when the
   * last connection has ended; closes the rest at the deadline.
   */
  retire(deadlineMs: number): Promise<void>
  /**
   * Stops accepting. Gives requests `requestsMs` to finish, and uploads and downloads with progress `transfersMs`.
   * Resolves when the last connection has ended. Does nothing for a server that does not listen.
   */
  finish(limits: { readonly requestsMs: number; readonly transfersMs: number }): Promise<void>
}

/** A server that takes over listens for the edge as soon as it leads. */
const edgeTakenMs = 30_000

/**
 * @param server has had no request yet
 * @param edge the other socket of the server
 */
export function createRetirement(server: Server, edge?: Pick<EdgeListener, 'retire' | 'close'>): Retirement {
  const retiring = new AbortController()
  const unanswered = new Set<ServerResponse>()
  let isEnding = false
  const closeAfterwards = (response: ServerResponse) => {
    if (!response.headersSent) response.setHeader('Connection', 'close')
  }
  server.prependListener('request', (_request, response: ServerResponse) => {
    if (isEnding) closeAfterwards(response)
    unanswered.add(response)
    response.once('close', () => unanswered.delete(response))
  })
  const answerLast = () => {
    isEnding = true
    for (const response of unanswered) closeAfterwards(response)
  }
  return {
    signal: retiring.signal,

    async retire(deadlineMs) {
      if (retiring.signal.aborted) return
      retiring.abort(new Error('another server has taken over'))
      answerLast()
      const { promise, resolve } = Promise.withResolvers<void>()
      // http's `close` would also close idle connections, whose next request may wait in the socket.
      NetServer.prototype.close.call(server, () => resolve())
      const cut = setTimeout(() => server.closeAllConnections(), deadlineMs)
      await Promise.all([promise, edge?.retire(Math.min(deadlineMs, edgeTakenMs))])
      clearTimeout(cut)
    },

    async finish({ requestsMs, transfersMs }) {
      if (!server.listening) return
      const deadline = performance.now() + transfersMs
      const closed = Promise.all([once(server, 'close'), edge?.close()])
      server.close()
      answerLast()
      const transfers = createTransfers()
      transfers.look(unanswered)
      const cut = setInterval(() => {
        const moving = performance.now() < deadline ? transfers.look(unanswered) : new Set()
        if (moving.size === 0) return server.closeAllConnections()
        for (const response of unanswered) if (!moving.has(response)) response.destroy()
      }, requestsMs)
      await closed
      clearInterval(cut)
    },
  }
}

export interface Transfers {
  /** Returns the unanswered requests whose body makes progress. */
  look(unanswered: Iterable<ServerResponse>): Set<ServerResponse>
}

/** Buffers on the way hold some megabytes, so a slow client may take no bytes for many seconds. */
const stalledMs = 30_000

interface Progress {
  readonly bytes: number
  readonly at: number
}

function createTransfers(): Transfers {
  const seen = new WeakMap<ServerResponse, Progress>()
  const moves = (response: ServerResponse): boolean => {
    const before = seen.get(response)
    if (before === undefined && !transfers(response)) return false
    const now = performance.now()
    const bytes = (response.req.socket.bytesRead ?? 0) + (response.req.socket.bytesWritten ?? 0)
    // The server still writes a received file to the disk.
    const isServersTurn = response.req.complete && !response.headersSent
    if (isServersTurn || before?.bytes !== bytes) seen.set(response, { bytes, at: now })
    return now - (seen.get(response)?.at ?? now) < stalledMs
  }
  return { look: (unanswered) => new Set([...unanswered].filter(moves)) }
}

/** True while a body arrives, or a body of known length is sent. Followed logs have no length. */
function transfers(response: ServerResponse): boolean {
  return !response.req.complete || (response.headersSent && response.hasHeader('Content-Length'))
}
