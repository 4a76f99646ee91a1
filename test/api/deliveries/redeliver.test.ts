import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { answers, deliveryThat, endpoint, ping, takes } from '../../harness/endpoint.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const hook = async (url: string) => (await server.client.webhooks.create({ body: { url } })).id

describe('POST /webhooks/:webhook_id/deliveries/:id/redeliver', () => {
  it('sends one again that had arrived, with the same id and body', async () => {
    await using receiver = await endpoint(takes)
    const webhook_id = await hook(receiver.url)
    const { id } = await ping(server.client, webhook_id)
    const again = await succeed(caller(), 'deliveries.redeliver', { webhook_id, id })
    expect(again).toMatchObject({ id, status: 'pending', attempts: 1, finished_at: null })
    await deliveryThat(server.client, { webhook_id, id }, (delivery) => delivery.attempts === 2)
    const [first, second] = receiver.requests
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    expect(second?.body).toBe(first?.body)
  })

  it('sends one at once that waits, and begins its schedule anew', async () => {
    await using receiver = await endpoint(answers(500))
    const webhook_id = await hook(receiver.url)
    const { id } = await ping(server.client, webhook_id)
    for (let attempts = 2; attempts <= 12; attempts++) {
      await server.client.deliveries.redeliver({ params: { webhook_id, id } })
      await deliveryThat(server.client, { webhook_id, id }, (delivery) => delivery.attempts >= attempts)
    }
    const delivery = await server.client.deliveries.get({ params: { webhook_id, id } })
    // Its own schedule may have sent it once more meanwhile.
    expect(delivery).toMatchObject({ status: 'pending' })
    expect(delivery.attempts).toBeGreaterThanOrEqual(12)
    const wait = Date.parse(String(delivery.next_attempt_at)) - Date.parse(String(delivery.latest_attempts[0]?.at))
    expect(wait).toBeLessThan(10_000)
  })

  it('during an attempt sends once more, whatever that one comes to', async () => {
    const release = Promise.withResolvers<void>()
    await using receiver = await endpoint((response, _, count) => {
      if (count > 1) response.writeHead(204).end()
      else void release.promise.then(() => response.writeHead(204).end())
    })
    const webhook_id = await hook(receiver.url)
    const { id } = await server.client.webhooks.test({ params: { id: webhook_id } })
    await receiver.waitFor(1)
    await server.client.deliveries.redeliver({ params: { webhook_id, id } })
    release.resolve()
    await receiver.waitFor(2)
    const delivery = await deliveryThat(server.client, { webhook_id, id }, ({ attempts }) => attempts === 2)
    expect(delivery.status).toBe('succeeded')
  })

  it('is refused while the receiver is disabled', async () => {
    await using receiver = await endpoint(takes)
    const webhook_id = await hook(receiver.url)
    const { id } = await ping(server.client, webhook_id)
    await server.client.webhooks.update({ params: { id: webhook_id }, body: { status: 'disabled' } })
    const redelivering = server.client.deliveries.redeliver({ params: { webhook_id, id } })
    await expect(redelivering).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'status' } })
  })

  it("answers 404 with the body of an id that never existed, also to another receiver's", async () => {
    await using receiver = await endpoint(takes)
    const [one, two] = [await hook(receiver.url), await hook(receiver.url)]
    const { id } = await ping(server.client, one)
    await expectNotFound(server, 'deliveries.redeliver', { webhook_id: one, id })
    await expect(server.client.deliveries.redeliver({ params: { webhook_id: two, id } })).rejects.toMatchObject({
      code: 'not_found',
    })
  })
})
