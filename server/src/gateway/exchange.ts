import type { ClientRequest, IncomingMessage, InformationEvent, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import { answer, answerBadGateway, answerUnavailable } from './answers.ts'
import type { Outgoing, OutgoingHead } from './connections.ts'
import { endToEnd, rawHead, responseHead, trailerFields } from './headers.ts'
import type { InFlight, Running } from './in-flight.ts'
import { openTunnel } from './tunnel.ts'
import type { Backend } from './upstreams.ts'

/** Where the requests of an app go, as it stands at the moment of asking. */
export interface Route {
  readonly backend: Backend | null
  readonly running: InFlight
  /** The client connections end with the answers that are still owed. */
  readonly closing: boolean
}

/** Methods that may be sent again when it is unknown whether the app has worked on the request (RFC 9110 §9.2.2). */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/**
 * One request until its last byte has gone either way: on `first`, or after an attempt that failed before the app
 * can have answered, on the upstream that is current by then. Whatever ends on one side ends on the other; an answer
 * that breaks off cuts the client's connection, so that it is never taken for a complete one.
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
  const running: Running = { cut }
  let backend = first
  let outgoing: Outgoing | null = null
  let clientDone = false
  let answered = false
  let resent = false
  let rerouted = false

  route.running.add(running)
  res.on('close', () => {
    clientDone = true
    if (!res.writableFinished) abandon()
    // After a complete answer Node no longer tells the request that its client has gone.
    else if (uploading()) client.on('close', abandon)
    settle()
  })
  attempt(first, { fresh: false })

  function attempt(next: Backend, { fresh }: { fresh: boolean }): void {
    if (next !== backend) backend.running.delete(running)
    backend = next
    backend.running.add(running)
    try {
      outgoing = backend.connections.send(head, { fresh, exclusive: upgradeHead !== null })
    } catch {
      answer(res, 400, 'The request has a header or an address that cannot be passed on.')
      return
    }
    const { request } = outgoing
    request.on('response', onResponse)
    request.on('information', onInformation)
    request.on('error', onUpstreamError)
    request.on('close', () => {
      // A switch of protocols that nobody asked for is neither an answer nor an error to Node.
      const given = answered || outgoing?.request !== request
      if (!given) onUpstreamError(new Error('closed without an answer'))
    })
    if (upgradeHead !== null) {
      request.on('upgrade', (incoming, socket, rest) => onUpgrade(incoming, socket, rest, upgradeHead))
    }
    if (head.hasBody) relayBody(request)
    else request.end()
  }

  function relayBody(request: ClientRequest): void {
    // The app sees the head before the first byte of the body, and may answer without waiting for it.
    request.flushHeaders()
    request.on('drain', () => req.resume())
    request.on('finish', settle)
    request.on('close', () => {
      // Nobody wants the rest of the body, but the client may not look for the answer before it has sent it.
      req.resume()
      settle()
    })
    req.on('data', (chunk: Buffer) => {
      if (!request.destroyed && !request.write(chunk)) req.pause()
    })
    req.on('end', () => {
      if (request.destroyed) return
      request.addTrailers(trailerFields(req.rawTrailers))
      request.end()
    })
  }

  function onInformation({ statusCode, statusMessage, rawHeaders }: InformationEvent): void {
    if (req.httpVersion !== '1.1' || res.headersSent || res.destroyed) return
    // Node closes the connection of a client that it has not told itself to go on: it cannot know where the body would be.
    if (statusCode === 100) res.writeContinue()
    else client.write(rawHead(statusCode, statusMessage, endToEnd(rawHeaders)), 'latin1')
  }

  function onResponse(incoming: IncomingMessage): void {
    const { statusCode: status = 0, statusMessage = '' } = incoming
    answered = true
    if (route.closing) res.shouldKeepAlive = false
    try {
      res.writeHead(status, statusMessage, responseHeaders(incoming, status))
    } catch {
      outgoing?.request.destroy()
      answerBadGateway(res)
      return
    }
    let flowing = false
    let waiting = false
    incoming.on('data', (chunk: Buffer) => {
      flowing = true
      if (res.write(chunk)) return
      incoming.pause()
      if (!waiting) res.on('drain', () => incoming.resume())
      waiting = true
    })
    incoming.on('end', () => {
      if (!incoming.complete) {
        cut()
        return
      }
      if (incoming.rawTrailers.length > 0) res.addTrailers(trailerFields(incoming.rawTrailers))
      res.end()
    })
    incoming.on('error', onUpstreamError)
    // Head and body leave together, unless the body lets us wait.
    setImmediate(() => {
      if (!flowing && !res.writableEnded && !res.destroyed) res.flushHeaders()
    })
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
    answered = true
    res.detachSocket(client)
    client.on('close', () => {
      clientDone = true
      settle()
    })
    const protocol = incoming.headers.upgrade ?? ''
    const headers = [...responseHeaders(incoming, 101), 'Connection', 'Upgrade', 'Upgrade', protocol]
    client.write(rawHead(101, incoming.statusMessage ?? '', headers), 'latin1')
    client.write(upstreamHead)
    upstream.write(clientHead)
    openTunnel(client, upstream)
  }

  function onUpstreamError(error: Error): void {
    // The client has all it will get, or has gone: then it was we who broke off.
    if (res.writableEnded || res.destroyed) return
    if (answered) {
      logger.warn({ err: error, deploymentId: backend.upstream.deploymentId }, 'the app broke off its answer')
      cut()
      return
    }
    if (sendAgain()) return
    logger.warn({ err: error, deploymentId: backend.upstream.deploymentId }, 'the app did not answer')
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
    if (head.hasBody) client.off('close', abandon)
    route.running.delete(running)
    backend.running.delete(running)
  }
}
