import type { Server, ServerResponse } from 'node:http'
import { Server as NetServer } from 'node:net'

/** How a server ends that another one has replaced on its socket. */
export interface Retirement {
  /** Aborts when the retirement begins. Answers without an end, such as followed logs, end then. */
  readonly signal: AbortSignal
  /**
   * Stops accepting, and finishes what has been accepted: requests under way, uploads and downloads. Every further answer
   * closes its connection. Resolves when the last connection has ended; those that are left at the deadline are closed.
   */
  retire(deadlineMs: number): Promise<void>
}

/** Call it before the server gets its first request. */
export function createRetirement(server: Server): Retirement {
  const retiring = new AbortController()
  const unanswered = new Set<ServerResponse>()
  const closeAfterwards = (response: ServerResponse) => {
    if (!response.headersSent) response.setHeader('Connection', 'close')
  }
  server.prependListener('request', (_request, response: ServerResponse) => {
    if (retiring.signal.aborted) return closeAfterwards(response)
    unanswered.add(response)
    response.once('close', () => unanswered.delete(response))
  })
  return {
    signal: retiring.signal,
    async retire(deadlineMs) {
      if (retiring.signal.aborted) return
      retiring.abort(new Error('another server has taken over'))
      for (const response of unanswered) closeAfterwards(response)
      const { promise, resolve } = Promise.withResolvers<void>()
      // That of http also closes connections that it takes for idle, whose next request may be in the socket's queue.
      NetServer.prototype.close.call(server, () => resolve())
      const cut = setTimeout(() => server.closeAllConnections(), deadlineMs)
      await promise
      clearTimeout(cut)
    },
  }
}
