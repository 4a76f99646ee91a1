import type { ClientRequest, IncomingMessage, InformationEvent, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import { answer, answerBadGateway, answerUnavailable } from './answers.ts'
import type { Outgoing, OutgoingHead } from './connections.ts'
import { createGuard, faultOf } from './faults.ts'
import { contentLength, interimHeaders, rawHead, reasonPhrase, responseHead, trailerFields } from './headers.ts'
import type { InFlight } from './in-flight.ts'
import { countAnswer, type Traffic } from './traffic.ts'
import { openTunnel } from './tunnel.ts'
import type { Backend } from './upstreams.ts'

/** Where the requests of an app go, as it stands at the moment of asking. */
export interface Route {
  readonly backend: Backend | null
  readonly running: InFlight
  readonly traffic: Traffic
  /** The client connections end with the answers that are still owed. */
  readonly closing: boolean
}

/** Methods that may be sent again when it is unknown whether the app has worked on the request (RFC 9110 §9.2.2). */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/** Up to here copying a body costs less than a second buffer to write. */
const MAX_JOINED_BYTES = 8 * 1024

/** What an app may say before its answer: far more than hints and signs of life take, far less than a flood. */
const MAX_INTERIM_ANSWERS = 20
const MAX_INTERIM_BYTES = 64 * 1024

/**
 * One request until its last byte has gone either way: on `first`, or after an attempt that failed before the app
 * can have answered, on the upstream that is current by then. Whatever ends on one side ends on the other; an answer
 * that breaks off cuts the client's connection, so that it is never taken for a complete one. Whatever fails in here cuts
 * this one exchange: no event callback is registered unguarded.
 */
export function exchange({
  route,
  first,
  req,
  res,
  upgradeHead,
  head,
  logger,
}: {
  route: Route
  first: Backend
  req: IncomingMessage
  res: ServerResponse
  /** Set when the client asks for another protocol: the bytes that it has sent in it already. */
  upgradeHead: Buffer | null
  head: OutgoingHead & { readonly hasBody: boolean }
  logger: Logger
}): void {
  const client = req.socket
  const guarded = createGuard((error) => {
    logger.error({ fault: faultOf(error), deploymentId: backend.upstream.deploymentId }, 'the exchange failed')
    cut()
  })
  const onClientGone = guarded(abandon)
  let backend = first
  let outgoing: Outgoing | null = null
  let clientDone = false
  let answered = false
  let resent = false
  let rerouted = false
  let interimAnswers = 0
  let interimBytes = 0

  const leaveRoute = route.running.add(cut)
  let leaveBackend = first.running.add(cut)
  res.on('close', guarded(onAnswerClosed))
  attempt(first, { fresh: false })

  function onAnswerClosed(): void {
    clientDone = true
    countAnswer(route.traffic, res)
    if (!res.writableFinished) abandon()
    // After a complete answer Node no longer tells the request that its client has gone.
    else if (uploading()) client.on('close', onClientGone)
    settle()
  }

  function attempt(next: Backend, { fresh }: { fresh: boolean }): void {
    if (next !== backend) {
      leaveBackend()
      leaveBackend = next.running.add(cut)
      backend = next
    }
    try {
      outgoing = backend.connections.send(head, { fresh, exclusive: upgradeHead !== null })
    } catch {
      answer(res, 400, 'The request has a header or an address that cannot be passed on.')
      return
    }
    const { request } = outgoing
    request.on('response', guarded(onResponse))
    request.on('information', guarded(onInformation))
    request.on('error', guarded(onUpstreamError))
    request.on(
      'close',
      guarded(() => {
        // A switch of protocols that nobody asked for is neither an answer nor an error to Node.
        const given = answered || outgoing?.request !== request
        if (!given) onUpstreamError(new Error('closed without an answer'))
      }),
    )
    if (upgradeHead !== null) {
      request.on(
        'upgrade',
        guarded((incoming: IncomingMessage, socket: Socket, rest: Buffer) => {
          onUpgrade(incoming, socket, rest, upgradeHead)
        }),
      )
    }
    if (head.hasBody) relayBody(request)
    else request.end()
  }

  function relayBody(request: ClientRequest): void {
    const length = contentLength(head.headers)
    let flowing = false
    const resume = guarded(() => req.resume())
    request.on('drain', resume)
    request.on('finish', guarded(settle))
    // Nobody wants the rest of the body, but the client may not look for the answer before it has sent it.
    request.on('close', resume)
    request.on('close', guarded(settle))
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
        // The only chunk has ended it.
        if (request.destroyed || request.writableEnded) return
        request.addTrailers(trailerFields(req.rawTrailers))
        request.end()
      }),
    )
    // Where the body lets the app wait, the app sees the head before its first byte, and may answer to that alone.
    setImmediate(
      guarded(() => {
        if (!flowing && !request.destroyed) request.flushHeaders()
      }),
    )
  }

  function onInformation({ statusCode, statusMessage, rawHeaders }: InformationEvent): void {
    if (over()) return
    const interim = rawHead(statusCode, statusMessage, interimHeaders(rawHeaders))
    interimAnswers += 1
    interimBytes += interim.length
    if (interimAnswers > MAX_INTERIM_ANSWERS || interimBytes > MAX_INTERIM_BYTES) {
      giveUp('too many interim answers')
      return
    }
    if (req.httpVersion !== '1.1') return
    // Node closes the connection of a client that it has not told itself to go on: it cannot know where the body would be.
    if (statusCode === 100) res.writeContinue()
    // The app does not wait for a client that reads slowly, and no client depends on hints.
    else if (!client.writableNeedDrain) client.write(interim, 'latin1')
  }

  function onResponse(incoming: IncomingMessage): void {
    const { statusCode: status = 0, statusMessage = '' } = incoming
    // What stood behind the message on which we gave up has been parsed already.
    if (over()) return
    answered = true
    if (route.closing) res.shouldKeepAlive = false
    let length: number | null
    try {
      // To Node a switch of protocols without an Upgrade header is an answer like any other.
      if (status < 200) throw new Error(`${status} as an answer`)
      const headers = responseHeaders(incoming, status)
      length = contentLength(headers)
      res.writeHead(status, reasonPhrase(statusMessage), headers)
    } catch (error) {
      giveUp(faultOf(error).message)
      return
    }
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
      // The only chunk has ended it.
      if (res.writableEnded) return
      if (!incoming.complete) {
        cut()
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
    incoming.on('error', guarded(onUpstreamError))
    // Head and body leave together, unless the body lets us wait.
    setImmediate(guarded(flushHead))
  }

  /** Sends the whole body with the head: of a short one Node makes one string with the head, and one write. */
  function endWith(message: ServerResponse | ClientRequest, body: Buffer): void {
    if (body.length <= MAX_JOINED_BYTES) message.end(body.toString('latin1'), 'latin1')
    else message.end(body)
  }

  /** Throws when the app's framing is not understood. */
  function responseHeaders({ rawHeaders }: IncomingMessage, status: number): string[] {
    const headers = responseHead({
      status,
      rawHeaders,
      trailersPossible: req.httpVersion === '1.1' && head.method !== 'HEAD' && status !== 204 && status !== 304,
      deploymentId: backend.upstream.deploymentId,
    })
    if (headers === null) throw new Error('unknown transfer coding')
    return headers
  }

  function onUpgrade(incoming: IncomingMessage, upstream: Socket, upstreamHead: Buffer, clientHead: Buffer): void {
    if (over()) {
      upstream.destroy()
      return
    }
    answered = true
    let switched: string
    try {
      const protocol = incoming.headers.upgrade ?? ''
      const headers = [...responseHeaders(incoming, 101), 'Connection', 'Upgrade', 'Upgrade', protocol]
      switched = rawHead(101, incoming.statusMessage ?? '', headers)
    } catch (error) {
      upstream.destroy()
      giveUp(faultOf(error).message)
      return
    }
    client.on('close', guarded(onTunnelClosed))
    res.detachSocket(client)
    client.write(switched, 'latin1')
    client.write(upstreamHead)
    upstream.write(clientHead)
    openTunnel(client, upstream)
  }

  function onTunnelClosed(): void {
    clientDone = true
    settle()
  }

  /** The client has its answer, or has gone. */
  function over(): boolean {
    return res.headersSent || res.destroyed
  }

  /** What the app says cannot be passed on, and nothing of it has been. */
  function giveUp(reason: string): void {
    logger.warn(
      { reason, deploymentId: backend.upstream.deploymentId },
      'the app gave an answer that cannot be passed on',
    )
    outgoing?.request.destroy()
    answerBadGateway(res)
  }

  function onUpstreamError(error: Error): void {
    // The client has all it will get, or has gone: then it was we who broke off.
    if (res.writableEnded || res.destroyed) return
    if (answered) {
      logger.warn(
        { fault: faultOf(error), deploymentId: backend.upstream.deploymentId },
        'the app broke off its answer',
      )
      cut()
      return
    }
    if (sendAgain()) return
    logger.warn({ fault: faultOf(error), deploymentId: backend.upstream.deploymentId }, 'the app did not answer')
    answerBadGateway(res)
  }

  /** Whether the request is on its way again, or needs no other answer than that there is no upstream any more. */
  function sendAgain(): boolean {
    if (outgoing === null || head.hasBody || !outgoing.unanswered()) return false
    const current = route.backend
    if (outgoing.unconnected()) {
      // The switch came between the look at the route and the connection.
      if (rerouted || current === backend || !(head.method === 'GET' || head.method === 'HEAD')) return false
      rerouted = true
    } else {
      // The app may close an unused connection in the moment in which it is used again.
      if (resent || !outgoing.reused || !IDEMPOTENT.has(head.method)) return false
      resent = true
    }
    if (current === null) answerUnavailable(res)
    else attempt(current, { fresh: true })
    return true
  }

  function cut(): void {
    outgoing?.request.destroy()
    // To an HTTP/1.0 client the orderly end of the connection is the end of the answer.
    if (req.httpVersion === '1.1') client.destroy()
    else client.resetAndDestroy()
  }

  function abandon(): void {
    outgoing?.request.destroy()
  }

  function uploading(): boolean {
    const request = outgoing?.request
    return head.hasBody && request !== undefined && !request.writableFinished && !request.destroyed
  }

  function settle(): void {
    if (!clientDone || uploading()) return
    if (head.hasBody) client.off('close', onClientGone)
    leaveRoute()
    leaveBackend()
  }
}
