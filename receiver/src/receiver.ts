import { createAuthenticate, validate } from './authenticate.ts'
import {
  createCatalogue,
  type EventOf,
  type NameOf,
  type NoSchemas,
  type PatternOf,
  type Schemas,
} from './catalogue.ts'
import { ReceiverError } from './errors.ts'
import { createHandlers, type Handler, type Outcome } from './handlers.ts'
import type { Respond, WebhookAnswer } from './http/exchange.ts'
import { fetchHandler } from './http/fetch.ts'
import { type KoaMiddleware, type KoaOptions, koaMiddleware } from './http/koa.ts'
import { type ReceiverOptions, readSettings, requireOptions } from './options.ts'
import { parseWebhook, type Webhook } from './payload.ts'
import { createRespond } from './respond.ts'
import type { WebhookHeaders } from './signature/headers.ts'
import { createKeys } from './signature/keys.ts'

/** A genuine webhook. `known` discriminates; `secretIndex` is the index in `secrets` of the secret that signed it. */
export type VerifiedWebhook<Own extends Schemas = NoSchemas> =
  | { readonly known: true; readonly event: EventOf<NameOf<Own>, Own>; readonly secretIndex: number }
  | { readonly known: false; readonly event: Webhook; readonly secretIndex: number }

export interface Receiver<Own extends Schemas = NoSchemas> {
  /**
   * Registers a handler for one event, for several, for all with a prefix (`deployment.*`) or for all (`*`). All handlers
   * of an event run concurrently.
   * @throws ReceiverError `duplicate_handler`, `late_registration` (after the first request), `unknown_event`
   */
  on<P extends PatternOf<Own>>(pattern: P | readonly P[], handler: Handler<P, Own>): void
  /**
   * Verifies a request without handling it. Checks size, headers, timestamp, signature, UTF-8, JSON and schema, in this
   * order.
   * @param rawBytes the body as received, neither decoded nor parsed
   * @throws ReceiverError
   */
  verify(headers: WebhookHeaders, rawBytes: Uint8Array): Promise<VerifiedWebhook<Own>>
  /**
   * Verifies and handles a request given as raw bytes, with any framework. Never rejects.
   * @param rawBytes a Buffer or Uint8Array, or a promise of one; anything else is answered with 500
   */
  receive(headers: WebhookHeaders, rawBytes: unknown): Promise<WebhookAnswer>
  /** Verifies and handles a `fetch` request. Never rejects. */
  handle(request: Request): Promise<Response>
  /**
   * Returns middleware for Koa 2 and 3. With `path`, it handles requests on exactly that path; without, all requests
   * that reach it, for example behind a router. Mount it before body parsers.
   * @throws ReceiverError `invalid_option`
   */
  middleware(options?: KoaOptions): KoaMiddleware
  /**
   * Runs the handlers of a webhook that `enqueue` has put into a queue.
   * @throws ReceiverError `invalid_payload`, `handler_failed`, `deadline_exceeded`, `in_progress`: retry later
   */
  run(webhook: unknown): Promise<Outcome>
}

/**
 * Creates a receiver of webhooks.
 * @throws ReceiverError `invalid_secret`, `invalid_option`
 */
export function createReceiver<const Own extends Schemas = NoSchemas>(options: ReceiverOptions<Own>): Receiver<Own> {
  requireOptions(options)
  const keys = createKeys(options.secrets)
  const catalogue = createCatalogue(options.events ?? {})
  const { tolerance, clock, deadline, enqueue } = readSettings(options)
  const handlers = createHandlers({ catalogue, deadline, dedupe: options.dedupe })
  const authenticate = createAuthenticate({ keys, catalogue, clock, tolerance })
  const { onUnknown, onError } = options
  const answer = createRespond({ authenticate, handlers, enqueue, deadline, onUnknown, onError })
  let started = false
  const respond: Respond = (headers, body, defaultReport) => {
    started = true
    return answer(headers, body, defaultReport)
  }

  return {
    on(patterns, handler) {
      if (started) throw late(patterns)
      // A handler accepts only the events of its patterns, and is called with no others.
      handlers.add([patterns].flat(), handler as Parameters<typeof handlers.add>[1])
    },
    async verify(headers, rawBytes) {
      const { webhook, known, secretIndex } = await authenticate(headers, rawBytes)
      const verified = known
        ? { known: true, event: known, secretIndex }
        : { known: false, event: webhook, secretIndex }
      // The type of `data` comes from the schema that validated it.
      return verified as VerifiedWebhook<Own>
    },
    receive: (headers, rawBytes) => respond(headers, rawBytes, toConsole),
    handle: fetchHandler(respond, toConsole),
    middleware: (koa = {}) => koaMiddleware(koa, respond),
    async run(value) {
      started = true
      const known = await validate(catalogue, parseWebhook(value))
      return known ? handlers.run(known) : 'ignored'
    },
  }
}

const toConsole = (error: ReceiverError): void => console.error(error)

const late = (patterns: string | readonly string[]) =>
  new ReceiverError(
    'late_registration',
    `The handler of ${patterns} is registered after the first request, which it has missed. Register every handler before the server listens.`,
  )
