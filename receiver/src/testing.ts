/**
 * For the tests of applications that receive webhooks.
 * @packageDocumentation
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { EventData, EventName } from './events.ts'
import { parseSecret, sign } from './signature.ts'

/** The `data` of Fairlead's events is typed; of your own, it is any object. */
export interface WebhookToSign<Name extends string = string> {
  readonly event: Name
  readonly data: Name extends EventName ? EventData<Name> : object
  readonly secret: string
  /** `webhook-id`; a new one unless given. Sign again with the same one to send a webhook again. */
  readonly id?: string
  /** The present in Unix milliseconds, for example of `createClock`; `Date.now` unless given. */
  readonly clock?: () => number
}

/** A webhook as it goes over the wire. */
export interface SignedWebhook {
  readonly headers: {
    readonly 'content-type': 'application/json'
    readonly 'webhook-id': string
    readonly 'webhook-timestamp': string
    readonly 'webhook-signature': string
  }
  readonly body: Buffer<ArrayBuffer>
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

/** A clock that stands still until it is told to go on. It starts at the present unless told otherwise. */
export function createClock(start: number = Date.now()): Clock {
  let now = start
  return {
    now: () => now,
    advance: (seconds) => {
      now += seconds * 1000
    },
  }
}

/** A Koa app, something that speaks `fetch` (Hono), or what `node:http` takes (Express). */
export type App =
  | { callback(): RequestListener }
  | { fetch(request: Request): Response | Promise<Response> }
  | RequestListener

export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** Parsed, where the answer is JSON; else its text. */
  readonly body: unknown
}

/** Posts a webhook to an app, which is served on a free port of loopback for as long as that takes. */
export async function postWebhook(app: App, path: string, { headers, body }: SignedWebhook): Promise<Answer> {
  const request = (origin: string) => new Request(new URL(path, origin), { method: 'POST', headers, body })
  if ('fetch' in app) return answerOf(await app.fetch(request('http://localhost')))
  const server = createServer('callback' in app ? app.callback() : app).listen(0, '127.0.0.1')
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

/** Webhooks with their signatures, as implementations of Standard Webhooks publish them. */
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
