import type { IncomingMessage, InformationEvent } from 'node:http'
import { contentLength } from '../http1/raw-headers.ts'
import {
  interimHeaders,
  mayHaveBody,
  rawHead,
  reasonPhrase,
  responseHead,
  trailerFields,
} from '../http1/response-head.ts'
import { hostnameOf, parseTarget } from '../http1/target.ts'
import { endWith } from './end-with.ts'
import { onUpstreamError, refuseAnswer } from './failure.ts'
import { faultOf } from './faults.ts'
import { cut, type Exchange, isOver } from './state.ts'
import { stickyCookie } from './sticky.ts'
import { countTime } from './traffic.ts'

/** Limits on interim answers: far more than hints and signs of life take, far less than a flood. */
const MAX_INTERIM_ANSWERS = 20
const MAX_INTERIM_BYTES = 64 * 1024

/** Passes an interim answer (1xx) on to the client. */
export function onInformation(exchange: Exchange, { statusCode, statusMessage, rawHeaders }: InformationEvent): void {
  const { req, res, client } = exchange
  if (isOver(exchange)) return
  const interim = rawHead(statusCode, statusMessage, interimHeaders(rawHeaders))
  exchange.interimAnswers += 1
  exchange.interimBytes += interim.length
  if (exchange.interimAnswers > MAX_INTERIM_ANSWERS || exchange.interimBytes > MAX_INTERIM_BYTES) {
    refuseAnswer(exchange, 'too many interim answers')
    return
  }
  if (req.httpVersion !== '1.1') return
  // Node closes the connection when it did not send `100 Continue` itself: it cannot know where the body would be.
  if (statusCode === 100) res.writeContinue()
  // The app does not wait for a client that reads slowly, and no client depends on hints.
  else if (!client.writableNeedDrain) client.write(interim, 'latin1')
}

/** Passes the head of the app's answer on, and then its body. */
export function onResponse(exchange: Exchange, incoming: IncomingMessage): void {
  const { res, route, startedAt, outgoing } = exchange
  const { statusCode: status = 0, statusMessage = '' } = incoming
  // Node has parsed already what stood behind a message that the gateway refused.
  if (isOver(exchange)) return
  exchange.answer = incoming
  if (route.closing || route.leaving) res.shouldKeepAlive = false
  let length: number | null
  try {
    // To Node a switch of protocols without an Upgrade header is an answer like any other.
    if (status < 200) throw new Error(`${status} as an answer`)
    const headers = responseHeaders(exchange, incoming, status)
    length = contentLength(headers)
    res.writeHead(status, reasonPhrase(statusMessage), headers)
  } catch (error) {
    refuseAnswer(exchange, faultOf(error).message)
    return
  }
  countTime(route.traffic, startedAt)
  if (outgoing !== null && announcesBodyInVain(exchange, incoming)) outgoing.request.shouldKeepAlive = false
  relayBody(exchange, incoming, length)
}

/** Returns the headers for the client. Throws when the app's framing is not understood. */
export function responseHeaders(exchange: Exchange, { rawHeaders }: IncomingMessage, status: number): string[] {
  const { req, head, backend } = exchange
  const headers = responseHead({
    status,
    rawHeaders,
    trailersPossible: req.httpVersion === '1.1' && mayHaveBody(head.method, status),
    deploymentId: backend.upstream.deploymentId,
    sharedSite: () => addressVisited(exchange),
  })
  if (headers === null) throw new Error('unknown transfer coding')
  const cookie = stickyCookie(exchange)
  if (cookie !== null) headers.push('Set-Cookie', cookie)
  return headers
}

/**
 * True when an answer without a body states a length or a coding. Some apps do send the body, perhaps after the head: it must
 * not become the answer to the next request on the connection.
 */
function announcesBodyInVain({ head }: Exchange, { statusCode = 0, headers }: IncomingMessage): boolean {
  if (mayHaveBody(head.method, statusCode)) return false
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Returns the app's host name below the domain of the server, when the visitor has come by it. */
function addressVisited({ route, req }: Exchange): string | null {
  if (!('hostname' in route.address)) return null
  const hostname = hostnameOf(route.address.hostname)
  const authority = parseTarget(req.url ?? '')?.authority ?? req.headers.host ?? ''
  return hostnameOf(authority) === hostname ? hostname : null
}

function relayBody(exchange: Exchange, incoming: IncomingMessage, length: number | null): void {
  const { res, guarded } = exchange
  let flowing = false
  let waiting = false
  const resume = guarded(() => incoming.resume())
  const onData = (chunk: Buffer) => {
    flowing = true
    if (chunk.length === length) {
      endWith(res, chunk)
      return
    }
    if (res.write(chunk)) return
    incoming.pause()
    if (!waiting) res.on('drain', resume)
    waiting = true
  }
  const onEnd = () => {
    // A single chunk that held the whole body has ended the answer already.
    if (res.writableEnded) return
    if (!incoming.complete) {
      cut(exchange)
      return
    }
    if (incoming.rawTrailers.length > 0) res.addTrailers(trailerFields(incoming.rawTrailers))
    res.end()
  }
  const flushHead = () => {
    if (!flowing && !res.writableEnded && !res.destroyed) res.flushHeaders()
  }
  incoming.on('data', guarded(onData))
  incoming.on('end', guarded(onEnd))
  incoming.on(
    'error',
    guarded((error: Error) => onUpstreamError(exchange, error)),
  )
  // Head and body leave together, unless the body is late.
  setImmediate(guarded(flushHead))
}
