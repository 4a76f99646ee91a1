import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { answers, deliveryThat, ping, takes, testEndpoint } from '../../harness/endpoint.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const hook = async (url: string) => (await server.client.webhooks.create({ body: { url } })).id

describe('POST /webhooks/:webhook_id/deliveries/:id/redeliver', () => {
  it('resends a successful delivery, with the same id and body', async () => {
    await using endpoint = await testEndpoint(takes)
    const webhook_id = await hook(endpoint.url)
    const { id } = await ping(server.client, webhook_id)
    const again = await succeed(caller(), 'deliveries.redeliver', { webhook_id, id })
    expect(again).toMatchObject({ id, status: 'pending', attempts: 1, finished_at: null })
    await deliveryThat(server.client, { webhook_id, id }, (delivery) => delivery.attempts === 2)
    const [first, second] = endpoint.requests
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    expect(second?.body).toBe(first?.body)
  })

  it('sends a pending delivery at once and restarts its schedule', async () => {
    await using endpoint = await testEndpoint(answers(500))
    const webhook_id = await hook(endpoint.url)
    let delivery = await ping(server.client, webhook_id)
    const { id } = delivery
    for (let attempts = 2; attempts <= 12; attempts++) {
      await server.client.deliveries.redeliver({ params: { webhook_id, id } })
      delivery = await deliveryThat(server.client, { webhook_id, id }, (read) => read.attempts >= attempts)
    }
    // The schedule may have sent it once more in between.
    expect(delivery).toMatchObject({ status: 'pending' })
    expect(delivery.attempts).toBeGreaterThanOrEqual(12)
    const wait = Date.parse(String(delivery.next_attempt_at)) - Date.parse(String(delivery.latest_attempts[0]?.at))
    expect(wait).toBeLessThan(10_000)
  })

  it('during an attempt sends once more, whatever the result of that attempt', async () => {
    const release = Promise.withResolvers<void>()
    await using endpoint = await testEndpoint((response, _, count) => {
      if (count > 1) response.writeHead(204).end()
      else void release.promise.then(() => response.writeHead(204).end())
    })
    const webhook_id = await hook(endpoint.url)
    const { id } = await server.client.webhooks.test({ params: { id: webhook_id } })
    await endpoint.waitFor(1)
    await server.client.deliveries.redeliver({ params: { webhook_id, id } })
    release.resolve()
    await endpoint.waitFor(2)
    const delivery = await deliveryThat(server.client, { webhook_id, id }, ({ attempts }) => attempts === 2)
    expect(delivery.status).toBe('succeeded')
  })

  it('is refused while the webhook is disabled', async () => {
    await using endpoint = await testEndpoint(takes)
    const webhook_id = await hook(endpoint.url)
    const { id } = await ping(server.client, webhook_id)
    await server.client.webhooks.update({ params: { id: webhook_id }, body: { status: 'disabled' } })
    const redelivering = server.client.deliveries.redeliver({ params: { webhook_id, id } })
    await expect(redelivering).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'status' } })
  })

  it('answers the same 404 as for an id that never existed, also for a delivery of another webhook', async () => {
    await using endpoint = await testEndpoint(takes)
    const [one, two] = [await hook(endpoint.url), await hook(endpoint.url)]
    const { id } = await ping(server.client, one)
    await expectNotFound(server, 'deliveries.redeliver', { webhook_id: one, id })
    await expect(server.client.deliveries.redeliver({ params: { webhook_id: two, id } })).rejects.toMatchObject({
      code: 'not_found',
    })
  })
})
