import { isUint8Array } from 'node:util/types'
import { ReceiverError } from './errors.ts'
import { type EventName, events, isEventName } from './events.ts'
import { errorAnswer, type WebhookAnswer, type WebhookRequest } from './exchange.ts'
import { readHeaders, type WebhookHeaders } from './headers.ts'
import { type KoaMiddleware, type KoaOptions, koaMiddleware } from './koa.ts'
import { parsePayload, type ReceivedEvent, type VerifiedWebhook } from './payload.ts'
import { requireSize } from './raw-body.ts'
import { DEFAULT_TOLERANCE, parseSecret, verify as verifySignature } from './signature.ts'

/** Does the work of one event. When it throws or rejects, the sender is told 500 and tries again. */
export type EventHandler<N extends EventName = EventName> = (event: ReceivedEvent<N>) => void | Promise<void>

export interface ReceiverOptions {
  /** The webhook's secrets (`whsec_…`). During a rotation both the old and the new one. */
  readonly secrets: readonly string[]
  /** Seconds that a timestamp may be from the clock in either direction; 300 unless given. */
  readonly tolerance?: number
  /** The present in Unix milliseconds; `Date.now` unless given. */
  readonly clock?: () => number
  /**
   * Told of every request that is answered with 400 or 500. A failed handler's own error is the `cause`.
   * Without it, errors of status 500 go to the Koa app's `error` event.
   */
  readonly onError?: (error: ReceiverError) => void | Promise<void>
}

export interface Receiver {
  /**
   * Registers the handler of an event.
   * @throws ReceiverError `duplicate_handler`, `late_registration` (after the first request), `unknown_event`
   */
  on<N extends EventName>(event: N, handler: EventHandler<N>): void
  /**
   * Verifies a request without routing it. In this order: size, headers, timestamp, signature, UTF-8, JSON, schema.
   * @param rawBytes the body as it came over the wire, neither decoded nor parsed
   * @throws ReceiverError
   */
  verify(headers: WebhookHeaders, rawBytes: Uint8Array): VerifiedWebhook
  /** Middleware for Koa 2 and 3 that takes `POST` on exactly `path`. Mount it before body parsers. */
  middleware(options: KoaOptions): KoaMiddleware
}

/**
 * Makes a receiver of Fairlead's webhooks.
 * @throws ReceiverError `invalid_secret`, `invalid_option`
 */
export function createReceiver(options: ReceiverOptions): Receiver {
  const { secrets, tolerance = DEFAULT_TOLERANCE, clock = Date.now, onError } = options
  const keys = parseSecrets(secrets)
  requireTolerance(tolerance)
  const handlers = new Map<EventName, (event: ReceivedEvent) => Promise<void>>()
  let started = false

  const on = <N extends EventName>(name: N, handler: EventHandler<N>): void => {
    requireRegistrable(name, handler)
    if (started) {
      throw new ReceiverError(
        'late_registration',
        `The handler of ${name} is registered after the first request, which it has missed. Register every handler before the server listens.`,
      )
    }
    if (handlers.has(name)) {
      throw new ReceiverError(
        'duplicate_handler',
        `${name} has a handler already. Register one handler for an event and call the others from it.`,
      )
    }
    handlers.set(name, async (event) => {
      if (isOfName(event, name)) await handler(event)
    })
  }

  const verify = (headers: WebhookHeaders, rawBytes: Uint8Array): VerifiedWebhook => {
    requireRawBytes(rawBytes)
    requireSize(rawBytes.byteLength)
    const { id, timestamp, signature } = readHeaders(headers)
    verifySignature({ keys, id, timestamp, signature, body: rawBytes, now: clock, tolerance })
    return parsePayload(id, rawBytes)
  }

  const dispatch = async (event: ReceivedEvent): Promise<'handled' | 'ignored'> => {
    const handler = handlers.get(event.event)
    if (!handler) return 'ignored'
    try {
      await handler(event)
    } catch (cause) {
      throw new ReceiverError(
        'handler_failed',
        `The receiver's handler of ${event.event} failed. Its log says why; send the webhook again.`,
        { cause },
      )
    }
    return 'handled'
  }

  const report = async (error: ReceiverError): Promise<ReceiverError | undefined> => {
    if (!onError) return error.status === 500 ? error : undefined
    try {
      await onError(error)
      return undefined
    } catch (cause) {
      return new ReceiverError('internal_error', `onError failed when it was told of ${error.code}.`, { cause })
    }
  }

  const receive = async ({ headers, body }: WebhookRequest): Promise<WebhookAnswer> => {
    started = true
    try {
      const webhook = verify(headers, await body())
      return { status: 200, body: { outcome: webhook.known ? await dispatch(webhook.event) : 'ignored' } }
    } catch (thrown) {
      const error = asReceiverError(thrown)
      const unreported = await report(error)
      return unreported ? { ...errorAnswer(error), unreported } : errorAnswer(error)
    }
  }

  return { on, verify, middleware: (koa) => koaMiddleware(koa, receive) }
}

const isOfName = <N extends EventName>(event: ReceivedEvent, name: N): event is ReceivedEvent & ReceivedEvent<N> =>
  event.event === name

function asReceiverError(thrown: unknown): ReceiverError {
  if (thrown instanceof ReceiverError) return thrown
  return new ReceiverError('internal_error', 'The webhook receiver failed. Its log says why; send the webhook again.', {
    cause: thrown,
  })
}

function parseSecrets(secrets: readonly string[]) {
  if (!Array.isArray(secrets) || secrets.length === 0) {
    throw new ReceiverError(
      'invalid_secret',
      '`secrets` is empty. Pass a list with the secret that Fairlead showed when the webhook was created.',
    )
  }
  return secrets.map(parseSecret)
}

function requireTolerance(tolerance: number): void {
  if (!Number.isFinite(tolerance) || tolerance < 0) {
    throw new ReceiverError(
      'invalid_option',
      '`tolerance` is not a number of seconds. Pass 0 or more, or leave it out.',
    )
  }
}

// The types refuse both mistakes; plain JavaScript gets here.
function requireRegistrable(name: string, handler: unknown): void {
  if (!isEventName(name)) {
    const known = Object.keys(events).join(', ')
    throw new ReceiverError('unknown_event', `"${name}" is not an event of Fairlead. Register one of: ${known}.`)
  }
  if (typeof handler !== 'function') {
    throw new ReceiverError('invalid_option', `The handler of ${name} is not a function. Pass a function.`)
  }
}

function requireRawBytes(rawBytes: unknown): void {
  if (!isUint8Array(rawBytes)) {
    throw new ReceiverError(
      'not_raw_bytes',
      'The body handed to verify() is not bytes. Pass the raw body as a Buffer or Uint8Array, before any decoding or parsing.',
    )
  }
}
