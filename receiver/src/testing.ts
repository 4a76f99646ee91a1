/**
 * Helpers for testing applications that receive webhooks.
 * @packageDocumentation
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ReceiverError } from './errors.ts'
import type { EventData, EventName } from './events.ts'
import { parseSecret, sign } from './signature/signature.ts'

/** For Fairlead's events, `data` is typed; for your own events, it is any object. */
export interface WebhookToSign<Name extends string = string> {
  readonly event: Name
  readonly data: Name extends EventName ? EventData<Name> : object
  readonly secret: string
  /** The `webhook-id`. Default: a new one. Use the same id again to simulate a repeated delivery. */
  readonly id?: string
  /** Returns the current time in Unix milliseconds, for example of `createClock`. Default: `Date.now`. */
  readonly clock?: () => number
}

/** A webhook as it is sent. */
export interface SignedWebhook {
  readonly headers: {
    readonly 'content-type': 'application/json'
    readonly 'webhook-id': string
    readonly 'webhook-timestamp': string
    readonly 'webhook-signature': string
  }
  /** A `Buffer`, declared as a type that does not need `@types/node`. */
  readonly body: Uint8Array<ArrayBuffer>
}

/**
 * Signs a webhook as Fairlead does.
 * @throws ReceiverError `invalid_secret`, `bad_id`
 */
export function signWebhook<const Name extends string>(webhook: WebhookToSign<Name>): SignedWebhook {
  const { event, data, secret, id = `evt_${randomUUID()}`, clock = Date.now } = webhook
  const now = clock()
  const timestamp = Math.floor(now / 1000)
  const body = Buffer.from(JSON.stringify({ event, timestamp: new Date(now).toISOString(), data }))
  return {
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': sign({ key: parseSecret(secret), id, timestamp, body }),
    },
    body,
  }
}

export interface Clock {
  /** Unix milliseconds. */
  now(): number
  advance(seconds: number): void
}

/** Creates a clock that changes only by `advance`. */
export function createClock(start: number = Date.now()): Clock {
  let now = start
  return {
    now: () => now,
    advance: (seconds) => {
      now += seconds * 1000
    },
  }
}

/**
 * A request listener for `node:http`, with its framework's types for request and response. Not Node's type, so that the
 * types of this package do not need `@types/node`.
 */
export type Listener = (request: never, response: never) => unknown

/** A Koa app, an object with a `fetch` method (Hono), or a request listener for `node:http` (Express). */
export type App = { callback(): Listener } | { fetch(request: Request): Response | Promise<Response> } | Listener

export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** The parsed value of a JSON answer, or else the text. */
  readonly body: unknown
}

/**
 * Posts a webhook to an app. Serves Koa and Express apps on a free loopback port for the time of the request.
 * @throws ReceiverError `invalid_option`
 */
export async function postWebhook(app: App, path: string, { headers, body }: SignedWebhook): Promise<Answer> {
  const request = (origin: string) => new Request(new URL(path, origin), { method: 'POST', headers, body })
  if ('fetch' in app) return answerOf(await app.fetch(request('http://localhost')))
  const listener = 'callback' in app ? app.callback() : app
  if (typeof listener !== 'function') {
    throw new ReceiverError(
      'invalid_option',
      'The app is neither a Koa app nor an object with `fetch` nor a request listener. With Fastify, pass app.routing after await app.ready().',
    )
  }
  const server = createServer(listener as RequestListener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    return await answerOf(await fetch(request(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)))
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

async function answerOf(response: Response): Promise<Answer> {
  const { status, headers } = response
  const text = await response.text()
  const isJson = headers.get('content-type')?.startsWith('application/json')
  return { status, headers, body: isJson ? JSON.parse(text) : text }
}

export interface Vector {
  readonly secret: string
  readonly id: string
  /** Unix seconds. */
  readonly timestamp: number
  readonly body: string
  readonly signature: string
}

const first = {
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  timestamp: 1_614_265_330,
}

/** Test vectors that implementations of Standard Webhooks publish: webhooks with their signatures. */
export const vectors: readonly Vector[] = [
  { ...first, body: '{"test": 2432232314}', signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=' },
  {
    secret: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
    id: 'msg_27UH4WbU6Z5A5EzD8u03UvzRbpk',
    timestamp: 1_649_367_553,
    body: '{"email":"test@example.com","username":"test_user"}',
    signature: 'v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=',
  },
  { ...first, body: '{"é":"漢字😀"}', signature: 'v1,DOKS2ZOyqcmfG0w6kKSjfHrueXAWQF/U97PMCiqTpUI=' },
]
