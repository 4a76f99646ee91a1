import { isUint8Array } from 'node:util/types'
import {
  createCatalogue,
  type EventOf,
  type NameOf,
  type NoSchemas,
  type PatternOf,
  type Schemas,
} from './catalogue.ts'
import { Deadline } from './deadline.ts'
import type { DedupeStore } from './dedupe.ts'
import { ReceiverError } from './errors.ts'
import { errorAnswer, type Respond, successAnswer, type Taken, type WebhookAnswer } from './exchange.ts'
import { fetchHandler } from './fetch.ts'
import {
  type AnyEvent,
  createHandlers,
  type Handler,
  type HandlerContext,
  handlerFailed,
  type Outcome,
} from './handlers.ts'
import { readHeaders, type WebhookHeaders } from './headers.ts'
import { createKeys, type Secrets } from './keys.ts'
import { type KoaMiddleware, type KoaOptions, koaMiddleware } from './koa.ts'
import { acceptData, parseBody, parseWebhook, type Webhook } from './payload.ts'
import { requireSize } from './raw-body.ts'
import { DEFAULT_TOLERANCE, findSigner, requireTimely, type SignatureHeaders } from './signature.ts'
import type { SigningKey } from './signing-key.ts'
import { isThenable } from './thenable.ts'

interface CommonOptions<Own extends Schemas> {
  /**
   * The webhook's secrets (`whsec_…`): during a rotation both the old and the new one. Or a function that is asked for
   * them on every request.
   */
  readonly secrets: Secrets
  /** Seconds that a timestamp may be from the clock in either direction; 300 unless given. */
  readonly tolerance?: number
  /** The present in Unix milliseconds; `Date.now` unless given. */
  readonly clock?: () => number
  /** Your own events beside Fairlead's: name → schema of `data`, of any library that speaks Standard Schema. */
  readonly events?: Own
  /** Remembers what was handled; without it, a webhook that comes again is handled again. */
  readonly dedupe?: DedupeStore
  /**
   * Seconds that handlers, or `enqueue`, have, and before them a function `secrets` and a schema that take their time;
   * 10 unless given. Fairlead waits 15 s for an answer.
   */
  readonly deadline?: number
  /** Told of genuine events that this receiver does not know. Should it fail, the webhook is sent again. */
  readonly onUnknown?: (event: Webhook) => void | Promise<void>
  /**
   * Told of every request that is answered with 400, 500 or 503. A failed handler's own error is the `cause`.
   * Without it, errors of status 500 go to the Koa app's `error` event, elsewhere to `console.error`.
   */
  readonly onError?: (error: ReceiverError) => void | Promise<void>
}

/** Handlers run before the answer. */
interface AckAfter {
  readonly ack?: 'after'
  readonly enqueue?: never
}

/** The answer is given once `enqueue` has made the webhook durable; handlers run where `receiver.run` is called. */
interface AckEnqueue {
  readonly ack: 'enqueue'
  /** Keeps the webhook, which is plain JSON. When it throws, rejects or misses the deadline, the webhook is sent again. */
  readonly enqueue: (webhook: Webhook, context: HandlerContext) => unknown
}

export type ReceiverOptions<Own extends Schemas = NoSchemas> = CommonOptions<Own> & (AckAfter | AckEnqueue)

/** A genuine webhook, told apart by `known`. `secretIndex` says which of `secrets` signed it. */
export type VerifiedWebhook<Own extends Schemas = NoSchemas> =
  | { readonly known: true; readonly event: EventOf<NameOf<Own>, Own>; readonly secretIndex: number }
  | { readonly known: false; readonly event: Webhook; readonly secretIndex: number }

export interface Receiver<Own extends Schemas = NoSchemas> {
  /**
   * Registers a handler for an event, several, all below a beginning (`deployment.*`) or all (`*`). All handlers of an
   * event run at once.
   * @throws ReceiverError `duplicate_handler`, `late_registration` (after the first request), `unknown_event`
   */
  on<P extends PatternOf<Own>>(pattern: P | readonly P[], handler: Handler<P, Own>): void
  /**
   * Verifies a request without handling it. In this order: size, headers, timestamp, signature, UTF-8, JSON, schema.
   * @param rawBytes the body as it came over the wire, neither decoded nor parsed
   * @throws ReceiverError
   */
  verify(headers: WebhookHeaders, rawBytes: Uint8Array): Promise<VerifiedWebhook<Own>>
  /**
   * Verifies and handles a request whose raw bytes are at hand, whatever the framework. Never rejects.
   * @param rawBytes a Buffer or Uint8Array, or a promise of one; anything else that a framework may have left is
   *   answered with 500
   */
  receive(headers: WebhookHeaders, rawBytes: unknown): Promise<WebhookAnswer>
  /** Verifies and handles a request of anything that speaks `fetch`. Never rejects. */
  handle(request: Request): Promise<Response>
  /** Middleware for Koa 2 and 3 that takes `POST` on exactly `path`. Mount it before body parsers. */
  middleware(options: KoaOptions): KoaMiddleware
  /**
   * Runs the handlers of a webhook that `enqueue` was given and a queue gives back.
   * @throws ReceiverError `invalid_payload`, `handler_failed`, `deadline_exceeded`, `in_progress`: try it again later
   */
  run(webhook: unknown): Promise<Outcome>
}

/**
 * Makes a receiver of webhooks.
 * @throws ReceiverError `invalid_secret`, `invalid_option`
 */
export function createReceiver<const Own extends Schemas = NoSchemas>(options: ReceiverOptions<Own>): Receiver<Own> {
  const { tolerance = DEFAULT_TOLERANCE, clock = Date.now, deadline = 10, dedupe, onUnknown, onError } = options
  const keys = createKeys(options.secrets)
  const catalogue = createCatalogue(options.events ?? {})
  requireSeconds('tolerance', tolerance)
  requireSeconds('deadline', deadline, longestTimer)
  const enqueue = enqueueOf(options)
  const handlers = createHandlers({ catalogue, deadline, dedupe })
  let started = false

  // What is there is gone on with at once and without closures: a wait costs as much as checking a small event.
  const authenticate = (headers: WebhookHeaders, rawBytes: unknown): Authentic | PromiseLike<Authentic> => {
    requireRawBytes(rawBytes)
    requireSize(rawBytes.byteLength)
    const signed = readHeaders(headers)
    requireTimely(signed, clock(), tolerance)
    const current = keys()
    return isThenable(current)
      ? current.then((fetched) => open(fetched, signed, rawBytes))
      : open(current, signed, rawBytes)
  }

  const open = (
    current: readonly SigningKey[],
    signed: SignatureHeaders,
    rawBytes: Uint8Array,
  ): Authentic | PromiseLike<Authentic> => {
    const secretIndex = findSigner(current, signed, rawBytes)
    const { event, timestamp, data } = parseBody(rawBytes)
    const webhook: Webhook = { id: signed.id, event, timestamp, data }
    const known = validate(webhook)
    return isThenable(known)
      ? known.then((checked) => ({ webhook, known: checked, secretIndex }))
      : { webhook, known, secretIndex }
  }

  /** Only secrets that are fetched and schemas that wait take time. */
  const inTime = (checking: PromiseLike<Authentic>): Promise<Authentic> =>
    new Deadline(deadline, 'Checking the webhook').limit(checking)

  /** The webhook with its data as the schema gives it; undefined when the event is not known. */
  const validate = ({
    id,
    event,
    timestamp,
    data,
  }: Webhook): AnyEvent | undefined | PromiseLike<AnyEvent | undefined> => {
    const schema = catalogue.get(event)
    if (!schema) return undefined
    const result = schema['~standard'].validate(data)
    return isThenable(result)
      ? Promise.resolve(result).then((settled) => ({ id, event, timestamp, data: acceptData(settled) }))
      : { id, event, timestamp, data: acceptData(result) }
  }

  const ignore = async (webhook: Webhook): Promise<'ignored'> => {
    try {
      await new Deadline(deadline, '`onUnknown`').limit(Promise.resolve(onUnknown?.(webhook)))
    } catch (cause) {
      throw handlerFailed(webhook.event, cause)
    }
    return 'ignored'
  }

  const store = async (webhook: Webhook, keep: AckEnqueue['enqueue']): Promise<'enqueued'> => {
    const time = new Deadline(deadline)
    try {
      await time.limit(Promise.resolve(keep(webhook, time)))
    } catch (cause) {
      throw new ReceiverError('enqueue_failed', 'The webhook could not be queued. Send it again.', { cause })
    }
    return 'enqueued'
  }

  const take = ({ webhook, known }: Authentic): Taken | Promise<Taken> => {
    if (!known) return ignore(webhook)
    return enqueue ? store(webhook, enqueue) : handlers.run(known)
  }

  const report = async (error: ReceiverError, unheard: (error: ReceiverError) => void): Promise<void> => {
    if (!onError) {
      if (error.status === 500) unheard(error)
      return
    }
    try {
      // The sender waits for its answer.
      await new Deadline(deadline, '`onError`').limit(Promise.resolve(onError(error)))
    } catch (cause) {
      unheard(new ReceiverError('internal_error', `onError failed when it was told of ${error.code}.`, { cause }))
    }
  }

  const respond: Respond = async (headers, body, unheard) => {
    started = true
    try {
      const checking = authenticate(headers, isThenable(body) ? await body : body)
      const authentic = isThenable(checking) ? await inTime(checking) : checking
      const taking = take(authentic)
      return successAnswer(isThenable(taking) ? await taking : taking)
    } catch (thrown) {
      const error = asReceiverError(thrown)
      await report(error, unheard)
      return errorAnswer(error)
    }
  }

  return {
    on(patterns, handler) {
      if (started) throw late(patterns)
      // `handler` takes the events of its patterns alone, and is given no others.
      handlers.add([patterns].flat(), handler as Parameters<typeof handlers.add>[1])
    },
    async verify(headers, rawBytes) {
      const { webhook, known, secretIndex } = await authenticate(headers, rawBytes)
      const verified = known
        ? { known: true, event: known, secretIndex }
        : { known: false, event: webhook, secretIndex }
      // The schema that gave the data is the one that its type says.
      return verified as VerifiedWebhook<Own>
    },
    receive: (headers, rawBytes) => respond(headers, rawBytes, toConsole),
    handle: fetchHandler(respond, toConsole),
    middleware: (koa) => koaMiddleware(koa, respond),
    async run(value) {
      started = true
      const known = await validate(parseWebhook(value))
      return known ? handlers.run(known) : 'ignored'
    },
  }
}

/** A genuine webhook, and the same with checked data where its event is known. */
interface Authentic {
  readonly webhook: Webhook
  readonly known: AnyEvent | undefined
  readonly secretIndex: number
}

const toConsole = (error: ReceiverError): void => console.error(error)

function asReceiverError(thrown: unknown): ReceiverError {
  if (thrown instanceof ReceiverError) return thrown
  return new ReceiverError('internal_error', 'The webhook receiver failed. Its log says why; send the webhook again.', {
    cause: thrown,
  })
}

const late = (patterns: string | readonly string[]) =>
  new ReceiverError(
    'late_registration',
    `The handler of ${patterns} is registered after the first request, which it has missed. Register every handler before the server listens.`,
  )

function enqueueOf(options: AckAfter | AckEnqueue): AckEnqueue['enqueue'] | undefined {
  const { ack = 'after', enqueue } = options
  if (ack === 'after' ? enqueue !== undefined : ack !== 'enqueue' || typeof enqueue !== 'function') {
    throw new ReceiverError(
      'invalid_option',
      "`ack` and `enqueue` do not fit. Pass `ack: 'enqueue'` with a function `enqueue`, or neither.",
    )
  }
  return enqueue
}

/** Seconds; a timer of Node that is set for longer ends at once. */
const longestTimer = 2_147_483

function requireSeconds(name: string, value: number, most = Number.MAX_VALUE): void {
  if (!Number.isFinite(value) || value < 0) {
    throw new ReceiverError(
      'invalid_option',
      `\`${name}\` is not a number of seconds. Pass 0 or more, or leave it out.`,
    )
  }
  if (value > most) {
    throw new ReceiverError('invalid_option', `\`${name}\` is more than ${most} seconds. Pass less, or leave it out.`)
  }
}

function requireRawBytes(rawBytes: unknown): asserts rawBytes is Uint8Array {
  if (!isUint8Array(rawBytes)) {
    throw new ReceiverError(
      'not_raw_bytes',
      'The body is not bytes. Pass the raw body as a Buffer or Uint8Array, before any decoding or parsing ' +
        '(Express: express.raw({ type: () => true }) on this route, before express.json()).',
    )
  }
}
