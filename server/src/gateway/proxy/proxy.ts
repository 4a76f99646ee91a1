import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { answer, answerBusy, answerUnavailable } from '../http1/answers.ts'
import { type Peer, requestHead } from '../http1/request-head.ts'
import { parseTarget } from '../http1/target.ts'
import type { Log } from '../protocol/log.ts'
import { beginExchange, closeAfterBody, stickyInstance } from './forward.ts'
import type { InFlight } from './in-flight.ts'
import type { Route } from './route.ts'
import { countAnswer } from './route.ts'
import { serveSite } from './site.ts'

export type AppProxy = (route: Route, req: IncomingMessage, res: ServerResponse, upgradeHead: Buffer | null) => void

/** Returns the peer of a connection; null when the connection is gone. */
export type PeerOf = (socket: Socket) => Peer | null

/**
 * Identifies peers by their addresses. `isTrustedProxy` is true for addresses whose X-Forwarded-* headers are trusted.
 */
export function peersByAddress({
  scheme,
  isTrustedProxy,
}: {
  readonly scheme: 'http' | 'https'
  readonly isTrustedProxy: (address: string) => boolean
}): PeerOf {
  const peers = new WeakMap<Socket, Peer>()
  // Once for each connection: searching the list of proxies takes as long as all other work here.
  return (socket) => {
    const known = peers.get(socket)
    if (known !== undefined) return known
    const { remoteAddress } = socket
    if (remoteAddress === undefined) return null
    const address = remoteAddress.startsWith('::ffff:') ? remoteAddress.slice(7) : remoteAddress
    const peer = { address, trusted: isTrustedProxy(address), scheme }
    peers.set(socket, peer)
    return peer
  }
}

const edge: Peer = { address: null, trusted: true, scheme: 'https' }

/** The peer for a listener that only the edge can reach. */
export const edgeAlone: PeerOf = () => edge

interface ProxyOptions {
  readonly log: Log
  readonly peerOf: PeerOf
  /** True when an app may have one more request; absent where connections are limited. */
  readonly hasRoom?: (running: InFlight) => boolean
}

/** Answers a request itself, for example from a static site, or starts an exchange with the app of its route. */
export function createProxy({ log, peerOf, hasRoom }: ProxyOptions): AppProxy {
  return (route, req, res, upgradeHead) => {
    const peer = peerOf(req.socket)
    if (peer === null) {
      res.destroy()
      return
    }
    route.traffic.requests += 1
    if (route.closing || route.leaving) res.shouldKeepAlive = false
    if (hasRoom?.(route.running) === false) {
      answerBusy(res)
      countAnswer(route.traffic, res)
      return
    }
    // An exchange counts its answer itself, at its end.
    if (!begin(route, peer, req, res, upgradeHead, log)) countAnswer(route.traffic, res)
  }
}

/** Returns false when the gateway itself has answered. */
function begin(
  route: Route,
  peer: Peer,
  req: IncomingMessage,
  res: ServerResponse,
  upgradeHead: Buffer | null,
  log: Log,
): boolean {
  const { method = 'GET', url = '' } = req
  const { backend } = route
  if (route.closing || backend === null) {
    answerUnavailable(res)
    return false
  }
  // Node's parser also accepts HTTP/0.9 and HTTP/2.0.
  if (req.httpVersion !== '1.1' && req.httpVersion !== '1.0') {
    res.shouldKeepAlive = false
    answer(res, 505, 'Only HTTP/1.1 and HTTP/1.0 are spoken here.')
    return false
  }
  const target = parseTarget(url)
  // `OPTIONS *` is the only valid request for `*` (RFC 9112 §3.2.4).
  if (target === null || (target.path === '*' && method !== 'OPTIONS')) {
    answer(res, 400, 'The request asks for an address that does not belong to this server.')
    return false
  }
  const instance = backend.site === null ? (stickyInstance(backend, req) ?? backend.pick()) : null
  const head = requestHead({
    method,
    rawHeaders: req.rawHeaders,
    authority: target.authority,
    defaultHost: instance?.authority ?? '',
    upgrade: upgradeHead !== null,
    peer,
  })
  if (!head.ok) {
    // The end of this request is unknown, so nothing after it is read.
    res.shouldKeepAlive = false
    answer(res, head.status, head.message)
    return false
  }
  if (head.hasBody) closeAfterBody(req, res)
  if (instance === null) {
    serveSite(route, backend, req, res, target.path, log)
    return true
  }
  const outgoing = { method, path: target.path, headers: head.headers, hasBody: head.hasBody }
  beginExchange({ route, backend, instance, req, res, upgradeHead, head: outgoing, log })
  return true
}
