import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { ignoreReceived } from '../platform/machine/http.ts'
import { answerBroken } from './connections.ts'

/**
 * The most requests of a connection that may wait for earlier answers. Node makes objects for each of them in one turn.
 */
const mostWaiting = 100

/**
 * Handles requests that a client sends before it has the answers to earlier requests (RFC 9112, section 9.3.2). They
 * run one after the other, each in a separate turn of the event loop, so that other connections are served in between.
 * A connection with too many waiting requests gets the earlier answers, then 400, and ends.
 */
export function oneByOne(handle: RequestListener): RequestListener {
  const waiting = new WeakMap<Socket, number>()
  return (request, response) => {
    // Node gives a response its socket when its turn has come.
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
