import type { ClientRequest, IncomingMessage, InformationEvent, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { readLastBytes } from '../../platform/http.ts'
import { answer, answerBadGateway, answerUnavailable } from '../http1/answers.ts'
import { cookieNamed } from '../http1/cookies.ts'
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
import type { Log } from '../protocol/log.ts'
import type { Backend, Instance } from './backend.ts'
import type { Outgoing, OutgoingHead } from './connections.ts'
import { createGuard, faultOf, type Guard } from './faults.ts'
import { countAnswer, countTime, cut, type Route } from './route.ts'
import { answerFromSite } from './site.ts'

/**
 * An app may close an unused connection just as a request is sent, and the gateway cannot know whether the app
 * processed the request. So a request that cannot be repeated takes only connections that were used within this time.
 * Under load, all were.
 */
const MAX_IDLE_MS = 100

export interface ExchangeRequest {
  readonly route: Route
  readonly backend: Backend
  readonly instance: Instance
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** The bytes that the client has already sent in another protocol; null when it asks for none. */
  readonly upgradeHead: Buffer | null
  readonly head: OutgoingHead & { readonly hasBody: boolean }
  readonly log: Log
}

/**
 * Starts an exchange with an instance. After a failure before any answer, continues with the upstream that is current
 * then. The end of one side ends the other; an incomplete answer cuts the client's connection. An error in this file
 * cuts only this exchange: every event callback is guarded.
 */
export function beginExchange(request: ExchangeRequest): void {
  const { route, backend, instance, req, res } = request
  const guarded = createGuard((error) => {
    const { deploymentId } = exchange.backend.upstream
    exchange.log.error({ fault: faultOf(error), deploymentId }, 'the exchange failed')
    cut(exchange)
  })
  const cutThis = () => cut(exchange)
  const exchange: Exchange = {
    route,
    req,
    res,
    startedAt: performance.now(),
    client: req.socket,
    upgradeHead: request.upgradeHead,
    head: request.head,
    log: request.log,
    guarded,
    onClientGone: guarded(() => void exchange.outgoing?.request.destroy()),
    attempt: (next) => attemptAgain(exchange, next, cutThis),
    backend,
    instance,
    outgoing: null,
    clientDone: false,
    answer: null,
    resent: false,
    rerouted: false,
    unconnected: 0,
    interimAnswers: 0,
    interimBytes: 0,
    leaveRoute: route.running.add(cutThis),
    leaveInstance: instance.running.add(cutThis),
  }
  res.on(
    'close',
    guarded(() => onAnswerClosed(exchange)),
  )
  attempt(exchange, instance, { fresh: false })
}

/**
 * Keeps the connection open after a final answer until the client has sent its body. Node would close it at once: a
 * client that still sends would get a reset and might lose the answer, and the app would lose the rest of the body.
 */
export function closeAfterBody(req: IncomingMessage, res: ServerResponse): void {
  res.on('finish', () => {
    const { socket } = req
    // If Node closes the connection, it has ended it by now.
    if (req.complete || !socket.writableEnded) return
    socket.off('finish', socket.destroy)
    socket.setTimeout(SILENCE_MS)
    req.on('end', () => socket.destroy())
  })
}

/** Returns the instance that a client used before; null when an instance has to be picked. */
export function stickyInstance({ sticky }: Backend, { headers }: IncomingMessage): Instance | null {
  return sticky === null ? null : sticky.find(cookieNamed(headers.cookie, sticky.cookie))
}

function onAnswerClosed(exchange: Exchange): void {
  const { route, res, client, onClientGone } = exchange
  exchange.clientDone = true
  countAnswer(route.traffic, res)
  if (!res.writableFinished) exchange.outgoing?.request.destroy()
  // After a complete answer, Node no longer tells the request that its client has gone.
  else if (isUploading(exchange)) client.on('close', onClientGone)
  settle(exchange)
}

/** Sends the request to the release that is routed now, possibly a static site, and preferably to another instance. */
function attemptAgain(exchange: Exchange, next: Backend, cutThis: () => void): void {
  const place = next.site ?? next.pick(exchange.instance)
  exchange.leaveInstance()
  exchange.leaveInstance = place.running.add(cutThis)
  exchange.backend = next
  const { req, res, head, log } = exchange
  if ('connections' in place) attempt(exchange, place, { fresh: true })
  else answerFromSite({ backend: next, site: place.endpoint, req, res, path: head.path, log })
}

function attempt(exchange: Exchange, instance: Instance, { fresh }: { readonly fresh: boolean }): void {
  const { res, head, upgradeHead } = exchange
  exchange.instance = instance
  try {
    const maxIdleMs = fresh ? 0 : isRepeatable(head) ? Number.POSITIVE_INFINITY : MAX_IDLE_MS
    exchange.outgoing = instance.connections.send(head, { maxIdleMs, exclusive: upgradeHead !== null })
  } catch {
    answer(res, 400, 'The request has a header or an address that cannot be passed on.')
    return
  }
  const { outgoing } = exchange
  const { request } = outgoing
  listenTo(exchange, request)
  // Before the connection exists, the request may still go elsewhere with its body.
  if (head.hasBody) outgoing.whenConnected(exchange.guarded(() => relayRequestBody(exchange, outgoing)))
  else request.end()
}

function listenTo(exchange: Exchange, request: ClientRequest): void {
  const { guarded, upgradeHead } = exchange
  request.on(
    'response',
    guarded((incoming: IncomingMessage) => onResponse(exchange, incoming)),
  )
  request.on(
    'information',
    guarded((information: InformationEvent) => onInformation(exchange, information)),
  )
  request.on(
    'error',
    guarded((error: Error) => onUpstreamError(exchange, error)),
  )
  request.on(
    'close',
    guarded(() => {
      // Node reports an unrequested protocol switch as neither an answer nor an error.
      const isDone = exchange.answer !== null || exchange.outgoing?.request !== request
      if (!isDone) onUpstreamError(exchange, new Error('closed without an answer'))
      settle(exchange)
    }),
  )
  if (upgradeHead === null) return
  request.on(
    'upgrade',
    guarded((incoming: IncomingMessage, socket: Socket, rest: Buffer) => {
      onUpgrade(exchange, incoming, socket, rest, upgradeHead)
    }),
  )
}

interface Exchange {
  readonly route: Route
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** The value of `performance.now()` when the request's head had arrived. */
  readonly startedAt: number
  readonly client: Socket
  /** The bytes that the client has already sent in another protocol; null when it asks for none. */
  readonly upgradeHead: Buffer | null
  readonly head: OutgoingHead & { readonly hasBody: boolean }
  readonly log: Log
  readonly guarded: Guard
  readonly onClientGone: () => void
  readonly attempt: (backend: Backend) => void

  backend: Backend
  instance: Instance
  outgoing: Outgoing | null
  clientDone: boolean
  answer: IncomingMessage | null
  /** True after a second attempt because a connection broke before the answer. */
  resent: boolean
  /** True after an attempt on the release that became current during the exchange. */
  rerouted: boolean
  /** The number of attempts on this backend that failed to connect. */
  unconnected: number
  interimAnswers: number
  interimBytes: number
  leaveRoute: () => void
  leaveInstance: () => void
}

function isOver({ res }: Exchange): boolean {
  return res.headersSent || res.destroyed
}

function isUploading({ head, outgoing }: Exchange): boolean {
  const request = outgoing?.request
  return head.hasBody && request !== undefined && !request.writableFinished && !request.destroyed
}

function settle(exchange: Exchange): void {
  if (!exchange.clientDone || isUploading(exchange)) return
  if (exchange.head.hasBody) exchange.client.off('close', exchange.onClientGone)
  exchange.leaveRoute()
  exchange.leaveInstance()
}

/** Passes the client's body on to the app, as fast as the app reads it. */
function relayRequestBody(exchange: Exchange, { request, socket }: Outgoing): void {
  const { req, guarded } = exchange
  const length = contentLength(exchange.head.headers)
  let flowing = false
  const resume = guarded(() => req.resume())
  const onEnd = guarded(() => settle(exchange))
  request.on('drain', resume)
  // After a complete answer, Node no longer passes `drain` on to the request, although the app may still read.
  socket.on('drain', resume)
  request.on('close', () => socket.off('drain', resume))
  request.on('finish', onEnd)
  // The app needs no more, but the client may read the answer only after it has sent the whole body.
  request.on('close', resume)
  req.on(
    'data',
    guarded((chunk: Buffer) => {
      flowing = true
      if (request.destroyed) return
      if (chunk.length === length) endWith(request, chunk)
      else if (!request.write(chunk)) req.pause()
    }),
  )
  req.on(
    'end',
    guarded(() => {
      // A single chunk with the whole body has ended the request.
      if (request.destroyed || request.writableEnded) return
      request.addTrailers(trailerFields(req.rawTrailers))
      request.end()
    }),
  )
  // When the body is late, the head is sent first: the app may answer without waiting for the body.
  setImmediate(
    guarded(() => {
      if (!flowing && !request.destroyed) request.flushHeaders()
    }),
  )
}

/** Limits interim answers: far more than hints and keep-alive signals need, far less than a flood. */
const MAX_INTERIM_ANSWERS = 20
const MAX_INTERIM_BYTES = 64 * 1024

function onInformation(exchange: Exchange, { statusCode, statusMessage, rawHeaders }: InformationEvent): void {
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
  // If Node has not sent `100 Continue` itself, it closes the connection, because it cannot know where the body would
  // be.
  if (statusCode === 100) res.writeContinue()
  // Hints are dropped for a slow client: the app must not wait for it, and no client depends on hints.
  else if (!client.writableNeedDrain) client.write(interim, 'latin1')
}

function onResponse(exchange: Exchange, incoming: IncomingMessage): void {
  const { res, route, startedAt, outgoing } = exchange
  const { statusCode: status = 0, statusMessage = '' } = incoming
  // After a refused answer, Node may have parsed what followed it.
  if (isOver(exchange)) return
  exchange.answer = incoming
  if (route.closing || route.leaving) res.shouldKeepAlive = false
  let length: number | null
  try {
    // Node treats a protocol switch without an Upgrade header as an ordinary answer.
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
function responseHeaders(exchange: Exchange, { rawHeaders }: IncomingMessage, status: number): string[] {
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
 * True when an answer without a body announces a length or a coding. Some apps do send a body, perhaps later. It must
 * not become the answer to the next request on the connection.
 */
function announcesBodyInVain({ head }: Exchange, { statusCode = 0, headers }: IncomingMessage): boolean {
  if (mayHaveBody(head.method, statusCode)) return false
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Returns the app's host name below the server's domain if the visitor used it; null otherwise. */
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
    // A single chunk with the whole body has ended the answer.
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
  // Head and body are sent together, unless the body is late.
  setImmediate(guarded(flushHead))
}

/** These methods may be repeated even if the app has processed the request (RFC 9110 §9.2.2). */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

function isRepeatable({ method, hasBody }: Exchange['head']): boolean {
  return !hasBody && IDEMPOTENT.has(method)
}

/** Answers with 502 when the app's answer cannot be passed on, and nothing of it was passed on. */
function refuseAnswer(exchange: Exchange, reason: string): void {
  const { log, backend, outgoing, res } = exchange
  log.warn({ reason, deploymentId: backend.upstream.deploymentId }, 'the app gave an answer that cannot be passed on')
  outgoing?.request.destroy()
  answerBadGateway(res)
}

function onUpstreamError(exchange: Exchange, error: Error): void {
  const { res, log, backend, instance, outgoing } = exchange
  // The client has the whole answer or has gone, and the gateway has ended the request.
  if (res.writableEnded || res.destroyed) return
  const { deploymentId } = backend.upstream
  if (exchange.answer !== null) {
    // Bytes after a complete answer only close the connection to the app.
    if (exchange.answer.complete) return
    log.warn({ fault: faultOf(error), deploymentId }, 'the app broke off its answer')
    cut(exchange)
    return
  }
  if (outgoing?.unconnected() === true && faultOf(error).code === 'ECONNREFUSED') backend.refused(instance)
  if (sendAgain(exchange, error)) return
  log.warn({ fault: faultOf(error), deploymentId }, 'the app did not answer')
  answerBadGateway(res)
}

/** Returns true when the request was sent again, or answered because no upstream is left. */
function sendAgain(exchange: Exchange, error: Error): boolean {
  const { outgoing, head, route } = exchange
  if (outgoing === null) return false
  const current = route.backend
  if (outgoing.unconnected()) {
    if (!mayConnectElsewhere(exchange, current)) return false
  } else {
    // The app may close an unused connection just as it is used again. An ending instance may still accept a connection
    // and never read from it, so another instance is tried.
    const another = current !== exchange.backend || current.size > 1
    if (exchange.resent || !(outgoing.reused || another) || !isRepeatable(head)) return false
    if (!outgoing.unanswered() && !isOfBefore(outgoing, error)) return false
    exchange.resent = true
  }
  if (current === null) answerUnavailable(exchange.res)
  else exchange.attempt(current)
  return true
}

/** True when bytes on a kept connection may belong to the previous answer, and so do not answer this request. */
function isOfBefore({ reused }: Outgoing, error: Error): boolean {
  return reused && faultOf(error).code?.startsWith('HPE_') === true
}

/** True when nothing was sent, and nothing of a body was read. Tries each instance once, and follows one switch. */
function mayConnectElsewhere(exchange: Exchange, current: Backend | null): boolean {
  if (current === exchange.backend) {
    exchange.unconnected += 1
    return exchange.unconnected < current.size
  }
  // The route was switched before the connection was established.
  if (exchange.rerouted) return false
  exchange.rerouted = true
  exchange.unconnected = 0
  return true
}

function onUpgrade(
  exchange: Exchange,
  incoming: IncomingMessage,
  upstream: Socket,
  upstreamHead: Buffer,
  clientHead: Buffer,
): void {
  const { client, res, guarded } = exchange
  if (isOver(exchange)) {
    upstream.destroy()
    return
  }
  exchange.answer = incoming
  let switched: string
  try {
    const protocol = incoming.headers.upgrade ?? ''
    const headers = [...responseHeaders(exchange, incoming, 101), 'Connection', 'Upgrade', 'Upgrade', protocol]
    switched = rawHead(101, incoming.statusMessage ?? '', headers)
  } catch (error) {
    upstream.destroy()
    refuseAnswer(exchange, faultOf(error).message)
    return
  }
  client.on(
    'close',
    guarded(() => {
      exchange.clientDone = true
      settle(exchange)
    }),
  )
  res.detachSocket(client)
  client.write(switched, 'latin1')
  client.write(upstreamHead)
  upstream.write(clientHead)
  openTunnel(client, upstream)
}

const TCP_KEEP_ALIVE_MS = 60_000
/**
 * A client may be silent for this long after the app has closed its half (nothing tells whether the app still reads),
 * or after its answer while it has not sent its whole body.
 */
const SILENCE_MS = 10_000

/**
 * Joins two connections after a protocol switch, each at the pace of the other. The end of one direction is passed on,
 * and the other direction continues; an error destroys both.
 *
 * @param upstream may be half open, and its last bytes are read after a failed write
 */
function openTunnel(client: Socket, upstream: Socket): void {
  for (const socket of [client, upstream]) {
    socket.setTimeout(0)
    socket.setNoDelay(true)
    socket.setKeepAlive(true, TCP_KEEP_ALIVE_MS)
  }
  readLastBytes(client)
  client.on('error', () => upstream.destroy())
  upstream.on('error', () => client.destroy())
  // Bytes from before the close still reach the other side.
  client.on('close', () => {
    if (client.readableEnded && client.writableFinished) upstream.destroySoon()
    else upstream.destroy()
  })
  upstream.on('close', () => client.destroySoon())
  upstream.on('end', () => {
    const silence = setTimeout(() => client.destroy(), SILENCE_MS)
    client.on('data', () => silence.refresh())
    client.on('close', () => clearTimeout(silence))
  })
  client.pipe(upstream)
  upstream.pipe(client)
}

/** Below this, copying a body costs less than a second write. */
const MAX_JOINED_BYTES = 8 * 1024

/** Sends the whole body with the head. Node joins a short body given as a string with the head, and writes once. */
function endWith(message: ServerResponse | ClientRequest, body: Buffer): void {
  if (body.length <= MAX_JOINED_BYTES) message.end(body.toString('latin1'), 'latin1')
  else message.end(body)
}

/** Returns the cookie that names the answering instance; null when the client has it or needs none. */
function stickyCookie({ backend: { sticky }, instance, req, head }: Exchange): string | null {
  const key = sticky?.keyOf(instance)
  if (sticky === null || key === undefined || key === cookieNamed(req.headers.cookie, sticky.cookie)) return null
  const secure = head.headers[head.headers.indexOf('X-Forwarded-Proto') + 1] === 'https' ? '; Secure' : ''
  return `${sticky.cookie}=${key}; Path=/; HttpOnly; SameSite=Lax${secure}`
}
