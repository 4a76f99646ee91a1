import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import { answer, answerUnavailable } from './answers.ts'
import { exchange, type Route } from './exchange.ts'
import { type Peer, requestHead } from './headers.ts'
import { parseTarget } from './target.ts'
import { countAnswer } from './traffic.ts'

export type Proxy = (route: Route, req: IncomingMessage, res: ServerResponse, upgradeHead: Buffer | null) => void

/** Decides what becomes of a request: an answer of the gateway's own, or an exchange with the app of its route. */
export function createProxy(gateway: {
  readonly logger: Logger
  readonly scheme: 'http' | 'https'
  readonly isTrustedProxy: (address: string) => boolean
}): Proxy {
  const peers = new WeakMap<Socket, Peer>()

  return (route, req, res, upgradeHead) => {
    const peer = peerOf(req.socket)
    if (peer === null) {
      res.destroy()
      return
    }
    route.traffic.requests += 1
    // An exchange counts its answer by itself, when it is there.
    if (!begin(route, peer, req, res, upgradeHead)) countAnswer(route.traffic, res)
  }

  /** False when there is no exchange, because the gateway has answered. */
  function begin(
    route: Route,
    peer: Peer,
    req: IncomingMessage,
    res: ServerResponse,
    upgradeHead: Buffer | null,
  ): boolean {
    const { method = 'GET', url = '' } = req
    if (route.closing) res.shouldKeepAlive = false
    if (route.closing || route.backend === null) {
      answerUnavailable(res)
      return false
    }
    const first = route.backend
    // Node's parser also takes HTTP/0.9 and HTTP/2.0 for something that it can read.
    if (req.httpVersion !== '1.1' && req.httpVersion !== '1.0') {
      res.shouldKeepAlive = false
      answer(res, 505, 'Only HTTP/1.1 and HTTP/1.0 are spoken here.')
      return false
    }
    const target = parseTarget(url)
    // The whole server can be asked for its options, and for nothing else (RFC 9112 §3.2.4).
    if (target === null || (target.path === '*' && method !== 'OPTIONS')) {
      answer(res, 400, 'The request asks for an address that is none of this server.')
      return false
    }
    const head = requestHead({
      method,
      rawHeaders: req.rawHeaders,
      authority: target.authority,
      defaultHost: `${first.upstream.host}:${first.upstream.port}`,
      upgrade: upgradeHead !== null,
      peer,
    })
    if (!head.ok) {
      // Where this request ends is in doubt, so nothing after it is read.
      res.shouldKeepAlive = false
      answer(res, head.status, head.message)
      return false
    }
    exchange({
      route,
      first,
      req,
      res,
      upgradeHead,
      head: { method, path: target.path, ...head },
      logger: gateway.logger,
    })
    return true
  }

  /** Asked for once on each connection: a look into the list of proxies takes as long as all else here. */
  function peerOf(socket: Socket): Peer | null {
    const known = peers.get(socket)
    if (known !== undefined) return known
    const { remoteAddress } = socket
    if (remoteAddress === undefined) return null
    const address = remoteAddress.startsWith('::ffff:') ? remoteAddress.slice(7) : remoteAddress
    const peer = { address, trusted: gateway.isTrustedProxy(address), scheme: gateway.scheme }
    peers.set(socket, peer)
    return peer
  }
}
