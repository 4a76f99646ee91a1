import { randomBytes, timingSafeEqual } from 'node:crypto'
import { ReceiverError } from '../errors.ts'
import { SigningKey } from './signing-key.ts'

// The rules come from Standard Webhooks (https://github.com/standard-webhooks/standard-webhooks).
const SECRET_PREFIX = 'whsec_'
const VERSION_PREFIX = 'v1,'
const TIMESTAMP = /^\d{1,12}$/
const MAX_SIGNATURES = 32

/** Seconds that a webhook's timestamp may differ from the clock in either direction. */
export const DEFAULT_TOLERANCE = 300

/** The three `webhook-*` headers, as sent. */
export interface SignatureHeaders {
  readonly id: string
  readonly timestamp: string
  readonly signature: string
}

export interface SignInput {
  readonly key: SigningKey
  /** The value of `webhook-id`. Must not contain a `.`. */
  readonly id: string
  /** The value of `webhook-timestamp`, in whole Unix seconds. */
  readonly timestamp: number
  readonly body: Uint8Array
}

export interface VerifyInput extends SignatureHeaders {
  /** A signature by any one of these keys is valid. */
  readonly keys: readonly SigningKey[]
  readonly body: Uint8Array
  /** Returns the current time in Unix milliseconds. */
  readonly now: () => number
  /** Seconds. Default: `DEFAULT_TOLERANCE`. */
  readonly tolerance?: number
}

/** Returns a new secret: `whsec_` and 32 random bytes in base64. */
export const generateSecret = (): string => `${SECRET_PREFIX}${randomBytes(32).toString('base64')}`

/**
 * Converts a secret (24 to 64 bytes in base64, with or without `whsec_`) into a key. Create the key once and reuse it.
 * @throws ReceiverError `invalid_secret`; its message never contains the secret.
 */
export function parseSecret(secret: string): SigningKey {
  if (typeof secret !== 'string' || secret === '' || secret === SECRET_PREFIX) {
    throw new ReceiverError(
      'invalid_secret',
      'The webhook secret is empty. Pass the whole secret that Fairlead showed when the webhook was created (whsec_…).',
    )
  }
  const text = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret
  const bytes = Buffer.from(text, 'base64')
  try {
    // Node skips characters that are not base64, so the text is valid only if encoding returns the same text.
    if (bytes.toString('base64') !== text) {
      throw new ReceiverError(
        'invalid_secret',
        'The webhook secret is not base64. Copy it whole, with its final "=" and without spaces or line breaks.',
      )
    }
    if (bytes.length < 24 || bytes.length > 64) {
      throw new ReceiverError(
        'invalid_secret',
        `The webhook secret has ${bytes.length} bytes, but 24 to 64 are required. Copy it whole, or rotate it for a new one.`,
      )
    }
    return new SigningKey(bytes)
  } finally {
    // Erased, because small buffers share one pool of memory.
    bytes.fill(0)
  }
}

/**
 * Signs a webhook. Returns the HMAC-SHA256 of `id.timestamp.body` as one entry (`v1,<base64>`) of `webhook-signature`.
 * @throws ReceiverError `invalid_secret`, `bad_id`, `bad_timestamp`
 */
export function sign({ key, id, timestamp, body }: SignInput): string {
  const seconds = String(timestamp)
  requireKeys([key])
  requireId(id)
  requireTimestamp(seconds)
  return VERSION_PREFIX + macOf(key, id, seconds, body)
}

/**
 * Verifies a webhook's timestamp and its signature over the raw bytes of its body.
 * @returns the index of the key that signed it
 * @throws ReceiverError `invalid_secret`, `bad_id`, `bad_timestamp`, `timestamp_too_old`, `timestamp_too_new`,
 *   `no_matching_signature`
 */
export function verify({ keys, body, now, tolerance = DEFAULT_TOLERANCE, ...headers }: VerifyInput): number {
  requireKeys(keys)
  requireTimely(headers, now(), tolerance)
  return findSigner(keys, headers, body)
}

/**
 * Rejects a webhook with a malformed id or timestamp, or with a timestamp outside the tolerance.
 * @param now Unix milliseconds
 * @param tolerance seconds
 * @throws ReceiverError `bad_id`, `bad_timestamp`, `timestamp_too_old`, `timestamp_too_new`
 */
export function requireTimely({ id, timestamp }: SignatureHeaders, now: number, tolerance: number): void {
  requireId(id)
  requireTimestamp(timestamp)
  requireFresh(Number(timestamp), Math.floor(now / 1000), tolerance)
}

/**
 * Returns the index of the key that signed the webhook. The headers must have passed `requireTimely`.
 * @throws ReceiverError `no_matching_signature`
 */
export function findSigner(
  keys: readonly SigningKey[],
  { id, timestamp, signature }: SignatureHeaders,
  body: Uint8Array,
): number {
  // Not split when there is one entry, as usual: splitting takes longer than the comparison.
  const entries = signature.includes(' ') ? signature.split(' ', MAX_SIGNATURES) : [signature]
  for (let index = 0; index < keys.length; index++) {
    expected.write(macOf(keys[index] as SigningKey, id, timestamp, body), VERSION_PREFIX.length, 'latin1')
    if (entries.some(isExpected)) return index
  }
  throw new ReceiverError(
    'no_matching_signature',
    'No signature in webhook-signature matches the body and any of the configured secrets. Check that `secrets` contains ' +
      'the secret of this webhook, and that nothing changes the body on its way.',
  )
}

const macOf = (key: SigningKey, id: string, timestamp: string, body: Uint8Array): string =>
  key.sign(`${id}.${timestamp}.`, body)

// Shared by all calls, because allocating two buffers costs more than comparing them. Safe, because the code that uses
// them is synchronous.
const expected = Buffer.alloc(VERSION_PREFIX.length + 44, VERSION_PREFIX)
const given = Buffer.alloc(expected.length)

// Compares the encoded texts instead of the decoded bytes: several base64 texts decode to the same bytes, and only the
// canonical text is accepted. Entries of other versions are never equal.
const isExpected = (entry: string): boolean =>
  entry.length === given.length && given.write(entry) === given.length && timingSafeEqual(given, expected)

// The types exclude this mistake, but plain JavaScript can make it.
function requireKeys(keys: readonly unknown[]): void {
  if (!keys.every((key) => key instanceof SigningKey)) {
    throw new ReceiverError('invalid_secret', 'The key is not a signing key. Pass the result of `parseSecret`.')
  }
}

// With a dot in the id or the timestamp, bytes could move between the three signed parts under the same signature.
function requireId(id: string): void {
  if (id === '' || id.includes('.')) {
    throw new ReceiverError('bad_id', 'webhook-id is empty or contains a ".". Send an id without dots.')
  }
}

function requireTimestamp(timestamp: string): void {
  if (TIMESTAMP.test(timestamp)) return
  const problem = /^\d{13}$/.test(timestamp) ? 'in milliseconds' : 'not a whole number'
  throw new ReceiverError(
    'bad_timestamp',
    `webhook-timestamp is ${problem}. Send the time of the attempt in Unix seconds.`,
  )
}

// Negated, so that a clock that returns NaN rejects everything.
function requireFresh(sent: number, now: number, tolerance: number): void {
  if (!(now - sent <= tolerance)) {
    throw new ReceiverError(
      'timestamp_too_old',
      `webhook-timestamp is more than ${tolerance} s in the past. Send a fresh timestamp with every attempt, and check the clocks of both machines.`,
    )
  }
  if (!(sent - now <= tolerance)) {
    throw new ReceiverError(
      'timestamp_too_new',
      `webhook-timestamp is more than ${tolerance} s in the future. Check the clocks of both machines.`,
    )
  }
}
