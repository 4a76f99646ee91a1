import { isUint8Array } from 'node:util/types'
import type { Catalogue } from './catalogue.ts'
import { ReceiverError } from './errors.ts'
import type { AnyEvent } from './handlers.ts'
import { requireSize } from './http/raw-body.ts'
import { acceptData, parseBody, type Webhook } from './payload.ts'
import { readHeaders, type WebhookHeaders } from './signature/headers.ts'
import type { Keys } from './signature/keys.ts'
import { findSigner, requireTimely, type SignatureHeaders } from './signature/signature.ts'
import type { SigningKey } from './signature/signing-key.ts'
import { isThenable } from './thenable.ts'

/** A webhook whose signature is valid. */
export interface AuthenticWebhook {
  readonly webhook: Webhook
  /** The same with checked data; undefined when the catalogue does not have the event. */
  readonly known: AnyEvent | undefined
  /** The index of the secret that signed it. */
  readonly secretIndex: number
}

/**
 * Verifies and parses a request. Returns a promise only when the keys or the schema are asynchronous.
 * @throws ReceiverError
 */
export type Authenticate = (
  headers: WebhookHeaders,
  rawBytes: unknown,
) => AuthenticWebhook | PromiseLike<AuthenticWebhook>

export interface AuthenticateOptions {
  readonly keys: Keys
  readonly catalogue: Catalogue
  /** Returns the current time in Unix milliseconds. */
  readonly clock: () => number
  /** Seconds. */
  readonly tolerance: number
}

// Stays synchronous with synchronous keys and schemas: a promise tick costs as much as verifying a small event.
export function createAuthenticate({ keys, catalogue, clock, tolerance }: AuthenticateOptions): Authenticate {
  const open = (
    current: readonly SigningKey[],
    headers: SignatureHeaders,
    rawBytes: Uint8Array,
  ): AuthenticWebhook | PromiseLike<AuthenticWebhook> => {
    const secretIndex = findSigner(current, headers, rawBytes)
    const { event, timestamp, data } = parseBody(rawBytes)
    const webhook: Webhook = { id: headers.id, event, timestamp, data }
    const known = validate(catalogue, webhook)
    return isThenable(known)
      ? known.then((checked) => ({ webhook, known: checked, secretIndex }))
      : { webhook, known, secretIndex }
  }

  return (headers, rawBytes) => {
    requireRawBytes(rawBytes)
    requireSize(rawBytes.byteLength)
    const signed = readHeaders(headers)
    requireTimely(signed, clock(), tolerance)
    const current = keys()
    return isThenable(current)
      ? current.then((fetched) => open(fetched, signed, rawBytes))
      : open(current, signed, rawBytes)
  }
}

/**
 * Returns the webhook with its data as the schema outputs it; undefined when the catalogue does not have the event.
 * @throws ReceiverError `invalid_payload`
 */
export function validate(
  catalogue: Catalogue,
  { id, event, timestamp, data }: Webhook,
): AnyEvent | undefined | PromiseLike<AnyEvent | undefined> {
  const schema = catalogue.get(event)
  if (!schema) return undefined
  const result = schema['~standard'].validate(data)
  return isThenable(result)
    ? Promise.resolve(result).then((settled) => ({ id, event, timestamp, data: acceptData(settled) }))
    : { id, event, timestamp, data: acceptData(result) }
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
