import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { AppTraffic, PublicAddress } from '../protocol/calls.ts'
import { noTimes, rangeOf, trimmed } from '../protocol/latency.ts'
import type { Backend } from './backend.ts'
import type { Outgoing } from './connections.ts'
import type { InFlight } from './in-flight.ts'

export interface Route {
  readonly address: PublicAddress
  readonly backend: Backend | null
  readonly running: InFlight
  readonly traffic: Traffic
  /** True while the app is being closed: new requests get 503, and connections close with the next answer. */
  readonly closing: boolean
  /**
   * True when another process accepts the connections from now on. This process closes its connections with the next
   * answer.
   */
  readonly leaving: boolean
}

/** Updated in place, because every request passes here. */
export interface Traffic {
  requests: number
  /** Answers of 500 and above, also the gateway's own. */
  errors: number
  /** Complete answers by status class: 2xx, 3xx, 4xx and 5xx. */
  answers: number[]
  /** The times of the app's answers, counted by range (`latency.ts`). */
  times: number[]
}

const noAnswers = (): number[] => [0, 0, 0, 0]

export const createTraffic = (): Traffic => ({ requests: 0, errors: 0, answers: noAnswers(), times: noTimes() })

/** Counts an answer. Call it when the answer is complete or its client has gone. */
export function countAnswer(traffic: Traffic, res: ServerResponse): void {
  const { statusCode } = res
  if (statusCode >= 500) traffic.errors += 1
  if (!res.headersSent) return
  const at = Math.trunc(statusCode / 100) - 2
  if (at >= 0 && at < 4) traffic.answers[at] = (traffic.answers[at] ?? 0) + 1
}

/** Counts the time from the head of a request until now. `startedAt` is a value of `performance.now()`. */
export function countTime(traffic: Traffic, startedAt: number): void {
  const range = rangeOf(performance.now() - startedAt)
  traffic.times[range] = (traffic.times[range] ?? 0) + 1
}

/** Returns the counts of an app, if there are any, and resets them. */
export function takeTraffic(appId: string, traffic: Traffic): AppTraffic[] {
  const { requests, errors, answers, times } = traffic
  // The head of an answer may count in an earlier period than its end.
  if (requests === 0 && errors === 0 && [...answers, ...times].every((count) => count === 0)) return []
  Object.assign(traffic, createTraffic())
  return [{ appId, requests, errors, answers, times: trimmed(times) }]
}

/** Cuts both connections, so that the client never takes a part of an answer for the whole. */
export function cut({
  outgoing,
  req,
  client,
}: {
  readonly outgoing: Outgoing | null
  readonly req: IncomingMessage
  readonly client: Socket
}): void {
  outgoing?.request.destroy()
  // An HTTP/1.0 client takes an orderly close for the end of the answer.
  if (req.httpVersion === '1.1') client.destroy()
  else client.resetAndDestroy()
}
