import type { ServerResponse } from 'node:http'

/** Uploads and downloads among the requests of a server that stops. */
export interface Transfers {
  /** Returns those of the unanswered requests that transfer a body and make progress. */
  look(unanswered: Iterable<ServerResponse>): Set<ServerResponse>
}

/** Buffers on the way hold some megabytes, so that a slow client may take no bytes for many seconds. */
const stalledMs = 30_000

interface Progress {
  readonly bytes: number
  readonly at: number
}

export function createTransfers(): Transfers {
  const seen = new WeakMap<ServerResponse, Progress>()
  const moves = (response: ServerResponse): boolean => {
    const before = seen.get(response)
    if (before === undefined && !transfers(response)) return false
    const now = performance.now()
    const bytes = (response.req.socket.bytesRead ?? 0) + (response.req.socket.bytesWritten ?? 0)
    // A file that has arrived is still written to the disk: then it is the server that has to go on.
    const isServersTurn = response.req.complete && !response.headersSent
    if (isServersTurn || before?.bytes !== bytes) seen.set(response, { bytes, at: now })
    return now - (seen.get(response)?.at ?? now) < stalledMs
  }
  return { look: (unanswered) => new Set([...unanswered].filter(moves)) }
}

/** True while a body of the request, or one of a known length in the answer, is under way. Followed logs have no length. */
function transfers(response: ServerResponse): boolean {
  return !response.req.complete || (response.headersSent && response.hasHeader('Content-Length'))
}
