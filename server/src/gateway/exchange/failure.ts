import { answerBadGateway, answerUnavailable } from '../http1/answers.ts'
import type { Backend } from '../upstream/backend.ts'
import type { Outgoing } from '../upstream/connections.ts'
import { faultOf } from './faults.ts'
import { cut, type Exchange } from './state.ts'

/** Methods that may be sent again when it is unknown whether the app has worked on the request (RFC 9110 §9.2.2). */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/** True for a request that may be sent a second time, and of which nothing was read from the client for the first. */
export function isRepeatable({ method, hasBody }: Exchange['head']): boolean {
  return !hasBody && IDEMPOTENT.has(method)
}

/** Answers with 502 to an answer of the app that cannot be passed on, and of which nothing was passed on. */
export function refuseAnswer(exchange: Exchange, reason: string): void {
  const { log, backend, outgoing, res } = exchange
  log.warn({ reason, deploymentId: backend.upstream.deploymentId }, 'the app gave an answer that cannot be passed on')
  outgoing?.request.destroy()
  answerBadGateway(res)
}

/** Sends the request again, answers with 502, or cuts an answer that broke off. */
export function onUpstreamError(exchange: Exchange, error: Error): void {
  const { res, log, backend, instance, outgoing } = exchange
  // The client has all it will get, or has gone: then the gateway itself has ended the request.
  if (res.writableEnded || res.destroyed) return
  const { deploymentId } = backend.upstream
  if (exchange.answer !== null) {
    // Bytes behind the whole answer, such as a body where none belongs, end the connection to the app and nothing else.
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

/** Returns true when the request is on its way again, or was answered because no upstream is left. */
function sendAgain(exchange: Exchange, error: Error): boolean {
  const { outgoing, head, route } = exchange
  if (outgoing === null) return false
  const current = route.backend
  if (outgoing.unconnected()) {
    if (!mayConnectElsewhere(exchange, current)) return false
  } else {
    // The app may close an unused connection in the moment in which it is used again. An instance that ends may still take a
    // connection that it never reads from: then another one is asked.
    const another = current !== exchange.backend || current.size > 1
    if (exchange.resent || !(outgoing.reused || another) || !isRepeatable(head)) return false
    if (!outgoing.unanswered() && !isOfBefore(outgoing, error)) return false
    exchange.resent = true
  }
  if (current === null) answerUnavailable(exchange.res)
  else exchange.attempt(current)
  return true
}

/** True when bytes on a kept connection may belong to the answer before: they are no answer to this request. */
function isOfBefore({ reused }: Outgoing, error: Error): boolean {
  return reused && faultOf(error).code?.startsWith('HPE_') === true
}

/**
 * Returns true when another attempt may get a connection: nothing was sent, and nothing of a body was read. Each instance is
 * tried once, and one switch is followed.
 */
function mayConnectElsewhere(exchange: Exchange, current: Backend | null): boolean {
  if (current === exchange.backend) {
    exchange.unconnected += 1
    return exchange.unconnected < current.size
  }
  // The route was switched before the connection was made.
  if (exchange.rerouted) return false
  exchange.rerouted = true
  exchange.unconnected = 0
  return true
}
