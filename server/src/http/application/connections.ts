import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createGates, type Gate } from '../../platform/slots/gates.ts'
import { type IsTrustedProxy, networkOf, peerAddress } from '../client-address.ts'

/** An answer of which the client reads nothing for this long is given up. */
const stalledMs = 60_000

/** The requests of a connection that are not answered yet, oldest first; none on an idle one. */
type UnderWay = Set<Pick<IncomingMessage, 'complete'>>

interface Peer {
  readonly gate: Gate
  /** Oldest first. */
  readonly connections: Map<Socket, UnderWay>
}

/**
 * Limits the connections of a server to `most`, of which one peer gets at most half, so that none can shut out the others.
 * Trusted proxies stand for many clients and may use all. A peer that has its share, and opens one more connection, loses
 * its oldest one that is idle, or else the oldest one that is still sending its request: whoever shares an address with a
 * flood is served in between.
 *
 * Connections are also closed when their headers take too long, after a pause between requests (both by Node), and when the
 * client stops reading its answer.
 */
export function limitConnections(
  server: Server,
  { most, isTrustedProxy }: { readonly most: number; readonly isTrustedProxy: IsTrustedProxy },
): void {
  const newGate = createGates(most)
  const peers = new Map<string, Peer>()
  const underWay = new WeakMap<Socket, UnderWay>()

  const peerOf = (name: string, address: string): Peer => {
    const known = peers.get(name)
    if (known !== undefined) return known
    const peer = { gate: newGate({ shared: isTrustedProxy(address) }), connections: new Map<Socket, UnderWay>() }
    peers.set(name, peer)
    return peer
  }
  const leave = (name: string, peer: Peer, socket: Socket): void => {
    if (peer.connections.delete(socket)) peer.gate.leave()
    if (peer.connections.size === 0) peers.delete(name)
  }

  server.on('connection', (socket: Socket) => {
    const address = peerAddress(socket)
    const name = isTrustedProxy(address) ? address : networkOf(address)
    const peer = peerOf(name, address)
    if (!peer.gate.enter()) {
      const replaced = oldestToClose(peer)
      if (replaced === undefined) {
        leave(name, peer, socket)
        socket.destroy()
        return
      }
      // The new connection takes its place.
      peer.connections.delete(replaced)
      replaced.destroy()
    }
    const requests: UnderWay = new Set()
    underWay.set(socket, requests)
    peer.connections.set(socket, requests)
    socket.once('close', () => leave(name, peer, socket))
  })
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    const requests = underWay.get(request.socket)
    requests?.add(request)
    response.once('close', () => requests?.delete(request))
  })
  // A connection to a command is a request that is answered for as long as it lasts.
  server.prependListener('upgrade', ({ socket }: IncomingMessage) => underWay.get(socket)?.add({ complete: true }))
  closeStalled(server, (socket) => (underWay.get(socket)?.size ?? 0) > 0)
}

function oldestToClose({ connections }: Peer): Socket | undefined {
  for (const [socket, requests] of connections) if (requests.size === 0) return socket
  for (const [socket, requests] of connections) {
    if ([...requests].every(({ complete }) => !complete)) return socket
  }
  return undefined
}

/** Closes connections on which nothing happens, unless it is the server that has not answered yet, or has nothing to say. */
function closeStalled(server: Server, isAnswering: (socket: Socket) => boolean): void {
  server.timeout = stalledMs
  server.on('timeout', (socket: Socket) => {
    if (isAnswering(socket) && socket.writableLength === 0) socket.setTimeout(stalledMs)
    else socket.destroy()
  })
}
