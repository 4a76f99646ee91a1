import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createGates, type Gate } from '../../platform/slots/gates.ts'
import { clientAddress, type IsTrustedProxy, isFromEdge, networkOf, peerAddress } from '../client-address.ts'

/** An answer of which the client reads nothing for this long is given up. */
const stalledMs = 60_000

/** The requests of a connection that are not answered yet, oldest first; none on an idle one. */
type UnderWay = Set<Pick<IncomingMessage, 'complete'>>

/** The unit that connections are counted by. */
interface Sender {
  readonly name: string
  /** True for one that stands for many clients. */
  readonly shared: boolean
}

interface Peer {
  readonly gate: Gate
  /** Oldest first. */
  readonly connections: Map<Socket, UnderWay>
}

/**
 * Limits the connections of a server to `most`, of which one peer gets at most half, so that none can shut out the others.
 * Trusted proxies stand for many clients and may use all. Of the edge, each client counts by itself, once its request has
 * begun. A peer that has its share, and opens one more connection, loses its oldest one that is idle, or else the oldest one
 * that is still sending its request: whoever shares an address with a flood is served in between.
 *
 * Connections are also closed when their headers take too long, after a pause between requests (both by Node), and when the
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
  /** The edge opens a connection for each request, which says whose it is: from then on that client has it. */
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
    // A connection to a command is a request that is answered for as long as it lasts.
    requests.add({ complete: true })
  })
  closeStalled(server, (socket) => (underWay.get(socket)?.size ?? 0) > 0)
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
    /** Counts a connection, or closes it where its sender has its share and none of the others can make room. */
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
        // The new connection takes its place.
        peer.connections.delete(replaced)
        replaced.destroy()
      }
      peer.connections.set(socket, requests)
    },
  }
}

/** Returns the sender of a connection that has said nothing yet. */
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

/** Closes connections on which nothing happens, unless it is the server that has not answered yet, or has nothing to say. */
function closeStalled(server: Server, isAnswering: (socket: Socket) => boolean): void {
  server.timeout = stalledMs
  server.on('timeout', (socket: Socket) => {
    if (isAnswering(socket) && socket.writableLength === 0) socket.setTimeout(stalledMs)
    else socket.destroy()
  })
}
