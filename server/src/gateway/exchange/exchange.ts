import type { ClientRequest, IncomingMessage, InformationEvent, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Log } from '../control/log.ts'
import { answer } from '../http1/answers.ts'
import type { Backend, Instance } from '../upstream/backend.ts'
import type { OutgoingHead } from '../upstream/connections.ts'
import { isRepeatable, onUpstreamError } from './failure.ts'
import { createGuard, faultOf } from './faults.ts'
import { onInformation, onResponse } from './relay-answer.ts'
import { relayRequestBody } from './relay-request.ts'
import { answerFromSite } from './serve-site.ts'
import { cut, type Exchange, isUploading, type Route, settle } from './state.ts'
import { countAnswer } from './traffic.ts'
import { onUpgrade } from './upgrade.ts'

/**
 * A request that cannot be sent again takes a kept connection only when it has just been used: an app may close any other in
 * the moment in which the request is sent, and it is unknown then whether the app has worked on it. Under load all
 * connections are as new as that.
 */
const MAX_IDLE_MS = 100

export interface ExchangeRequest {
  readonly route: Route
  readonly backend: Backend
  readonly instance: Instance
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** Set when the client asks for another protocol: the bytes that it has sent in it already. */
  readonly upgradeHead: Buffer | null
  readonly head: OutgoingHead & { readonly hasBody: boolean }
  readonly log: Log
}

/**
 * Begins an exchange: on the given instance, or after an attempt that failed before the app can have answered, on the
 * upstream that is current by then. The end of one side ends the other; an answer that breaks off cuts the client's
 * connection. An error in here cuts this one exchange: no event callback is registered unguarded.
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

function onAnswerClosed(exchange: Exchange): void {
  const { route, res, client, onClientGone } = exchange
  exchange.clientDone = true
  countAnswer(route.traffic, res)
  if (!res.writableFinished) exchange.outgoing?.request.destroy()
  // After a complete answer Node no longer tells the request that its client has gone.
  else if (isUploading(exchange)) client.on('close', onClientGone)
  settle(exchange)
}

/**
 * Sends the request once more: to the release that has the address by now, which may be a static site, and to another
 * instance than before where there is one.
 */
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
  // Until then the request may go elsewhere, with its body.
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
      // Node reports an unrequested switch of protocols as neither an answer nor an error.
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
