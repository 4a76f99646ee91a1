import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Log } from '../control/log.ts'
import type { PublicAddress } from '../control/protocol.ts'
import type { Backend, Instance } from '../upstream/backend.ts'
import type { Outgoing, OutgoingHead } from '../upstream/connections.ts'
import type { InFlight } from '../upstream/in-flight.ts'
import type { Guard } from './faults.ts'
import type { Traffic } from './traffic.ts'

/** The route of an app at the moment of asking. */
export interface Route {
  readonly address: PublicAddress
  readonly backend: Backend | null
  readonly running: InFlight
  readonly traffic: Traffic
  /** True when the app is being closed: new requests get 503, and client connections end with the next answer. */
  readonly closing: boolean
  /** True when another process accepts the connections from now on: those of this one end with their next answer. */
  readonly leaving: boolean
}

/** One request until its last byte has gone either way. */
export interface Exchange {
  readonly route: Route
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** The time by `performance.now()` at which the request's head was there. */
  readonly startedAt: number
  readonly client: Socket
  /** Set when the client asks for another protocol: the bytes that it has sent in it already. */
  readonly upgradeHead: Buffer | null
  readonly head: OutgoingHead & { readonly hasBody: boolean }
  readonly log: Log
  /** Every event callback is wrapped in it: an error in one cuts this exchange and nothing else. */
  readonly guarded: Guard
  readonly onClientGone: () => void
  /** Sends the request again on a new connection, on another backend perhaps. */
  readonly attempt: (backend: Backend) => void

  backend: Backend
  instance: Instance
  outgoing: Outgoing | null
  clientDone: boolean
  /** The head of the app's final answer, or of its switch of protocols; null until it is there. */
  answer: IncomingMessage | null
  /** True after a second attempt because a kept connection had been closed. */
  resent: boolean
  /** True after an attempt on the release that a switch made current in the meantime. */
  rerouted: boolean
  /** The number of attempts on this backend that got no connection. */
  unconnected: number
  interimAnswers: number
  interimBytes: number
  leaveRoute: () => void
  leaveInstance: () => void
}

/** True when the client has its answer, or has gone. */
export function isOver({ res }: Exchange): boolean {
  return res.headersSent || res.destroyed
}

/** Breaks off both sides, so that the client never takes a part of an answer for the whole. */
export function cut({ outgoing, req, client }: Pick<Exchange, 'outgoing' | 'req' | 'client'>): void {
  outgoing?.request.destroy()
  // To an HTTP/1.0 client the orderly end of the connection is the end of the answer.
  if (req.httpVersion === '1.1') client.destroy()
  else client.resetAndDestroy()
}

export function isUploading({ head, outgoing }: Exchange): boolean {
  const request = outgoing?.request
  return head.hasBody && request !== undefined && !request.writableFinished && !request.destroyed
}

/** Ends the exchange when both sides are done. */
export function settle(exchange: Exchange): void {
  if (!exchange.clientDone || isUploading(exchange)) return
  if (exchange.head.hasBody) exchange.client.off('close', exchange.onClientGone)
  exchange.leaveRoute()
  exchange.leaveInstance()
}
