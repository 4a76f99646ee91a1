import type { IncomingMessage, ServerResponse } from 'node:http'

/** How long a client may be silent that has its answer and has not sent its whole body. */
const SILENCE_MS = 10_000

/**
 * Keeps a connection that ends with this answer until the client has sent its body. Node would close it at once. Then a client that still
 * sends gets a reset and may lose the answer, and the app loses the rest of the body, which it may still be reading.
 */
export function closeAfterBody(req: IncomingMessage, res: ServerResponse): void {
  res.on('finish', () => {
    const { socket } = req
    // Node has ended the connection by now, if at all, and destroys it when the answer is on its way.
    if (req.complete || !socket.writableEnded) return
    socket.off('finish', socket.destroy)
    socket.setTimeout(SILENCE_MS)
    req.on('end', () => socket.destroy())
  })
}
