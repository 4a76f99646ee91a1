import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseSecret, verify } from '@fairlead/receiver'
import type { Client, ResponseBody } from '@fairlead/server/client'

export interface EndpointRequest {
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** The number of its connection, counted from 1. */
  readonly connection: number
}

/** Answers a request, or leaves it unanswered. `count` is 1 for the first request. */
export type EndpointAnswer = (response: ServerResponse, request: EndpointRequest, count: number) => void

/** A webhook's target: an HTTP server that answers as the test says, without the library `@fairlead/receiver`. */
export interface Endpoint extends AsyncDisposable {
  readonly url: string
  readonly requests: readonly EndpointRequest[]
  /** Resolves when at least this many requests have arrived. */
  waitFor(count: number): Promise<void>
}

export async function testEndpoint(answer: EndpointAnswer): Promise<Endpoint> {
  const requests: EndpointRequest[] = []
  const waiting = new Set<() => void>()
  const connections = new WeakMap<object, number>()
  let connected = 0
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer)
    } catch {
      return
    }
    const body = Buffer.concat(chunks).toString()
    const received = { headers: request.headers, body, connection: connections.get(request.socket) ?? 0 }
    requests.push(received)
    answer(response, received, requests.length)
    for (const look of waiting) look()
  })
  server.on('connection', (socket) => connections.set(socket, ++connected))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`,
    requests,
    waitFor: (count) =>
      new Promise((done) => {
        const look = () => {
          if (requests.length < count) return
          waiting.delete(look)
          done()
        }
        waiting.add(look)
        look()
      }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

export const takes: EndpointAnswer = (response) => void response.writeHead(204).end()

export const answers =
  (status: number, headers: Record<string, string> = {}): EndpointAnswer =>
  (response) =>
    void response.writeHead(status, headers).end()

/** Fails, and delays retries beyond the test's end. */
export const failsForAnHour: EndpointAnswer = answers(503, { 'retry-after': '3600' })

/** True when a request is signed with this secret. */
export function isSignedBy(secret: string, { headers, body }: EndpointRequest): boolean {
  try {
    verify({
      keys: [parseSecret(secret)],
      id: String(headers['webhook-id']),
      timestamp: String(headers['webhook-timestamp']),
      signature: String(headers['webhook-signature']),
      body: Buffer.from(body),
      now: Date.now,
    })
    return true
  } catch {
    return false
  }
}

type Delivery = ResponseBody<'deliveries.get'>

/** Reads a delivery until the condition is true. */
export async function deliveryThat(
  client: Client,
  { webhook_id, id }: { webhook_id: string; id: string },
  fits: (delivery: Delivery) => boolean,
): Promise<Delivery> {
  for (;;) {
    const delivery = await client.deliveries.get({ params: { webhook_id, id } })
    if (fits(delivery)) return delivery
    await new Promise((done) => setTimeout(done, 20))
  }
}

/** Sends a `ping` and waits until this many attempts are recorded. */
export async function ping(client: Client, webhookId: string, attempts = 1): Promise<Delivery> {
  const made = await client.webhooks.test({ params: { id: webhookId } })
  return deliveryThat(client, made, (delivery) => delivery.attempts >= attempts)
}
