import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { answers, deliveryThat, endpoint, ping, takes } from '../harness/endpoint.ts'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const hook = async (url: string) => (await server.client.webhooks.create({ body: { url } })).id
const unknown = 'dlv_01h455vb4pex5vsknk084sn02q'

describe('deliveries.list', () => {
  it('is newest first, in pages, and filtered by status and event', async () => {
    await using receiver = await endpoint((response, _, count) => response.writeHead(count === 2 ? 410 : 204).end())
    const webhook_id = await hook(receiver.url)
    const first = await ping(server.client, webhook_id)
    const second = await ping(server.client, webhook_id)
    await server.client.webhooks.update({ params: { id: webhook_id }, body: { status: 'enabled' } })
    const third = await ping(server.client, webhook_id)
    const list = async (query: object) => {
      const { deliveries } = await server.client.deliveries.list({ params: { webhook_id }, query })
      return deliveries.map(({ id }) => id)
    }
    expect(await list({})).toEqual([third.id, second.id, first.id])
    expect(await list({ status: 'failed' })).toEqual([second.id])
    expect(await list({ status: 'succeeded', event: 'ping' })).toEqual([third.id, first.id])
    expect(await list({ status: 'pending' })).toEqual([])
    expect(await list({ event: 'file.uploaded' })).toEqual([])
    const pages: string[][] = []
    for await (const { deliveries } of server.client.deliveries.list.pages({
      params: { webhook_id },
      query: { limit: 1, status: 'succeeded' },
    })) {
      pages.push(deliveries.map(({ id }) => id))
    }
    expect(pages).toEqual([[third.id], [first.id]])
    const { latest_attempts: _, payload: __, ...shown } = third
    const { deliveries } = await server.client.deliveries.list({ params: { webhook_id }, query: { limit: 1 } })
    expect(deliveries).toEqual([shown])
  })

  it.each([
    ['status', 'lost'],
    ['event', 'deployment.*'],
    ['event', ''],
  ])('refuses %s=%s', async (field, value) => {
    const webhook_id = await hook('https://example.com')
    const listing = server.client.deliveries.list({ params: { webhook_id }, query: { [field]: value } as object })
    await expect(listing).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
  })
})

describe('deliveries.get', () => {
  it("does not know another receiver's deliveries", async () => {
    await using receiver = await endpoint(takes)
    const [one, two] = [await hook(receiver.url), await hook(receiver.url)]
    const { id } = await ping(server.client, one)
    for (const params of [
      { webhook_id: two, id },
      { webhook_id: one, id: unknown },
      { webhook_id: one, id: 'dlv_\0' },
    ]) {
      await expect(server.client.deliveries.get({ params })).rejects.toMatchObject({ code: 'not_found' })
      await expect(server.client.deliveries.redeliver({ params })).rejects.toMatchObject({ code: 'not_found' })
    }
  })

  it('shows all attempts, newest first', async () => {
    await using receiver = await endpoint((response, _, count) =>
      response.writeHead(count === 1 ? 503 : 200, { 'x-count': String(count) }).end(`answer ${count}`),
    )
    const { latest_attempts } = await ping(server.client, await hook(receiver.url), 2)
    expect(latest_attempts).toMatchObject([
      { number: 2, response: { status: 200, headers: { 'x-count': '2' }, body: 'answer 2' } },
      { number: 1, response: { status: 503, headers: { 'x-count': '1' }, body: 'answer 1' } },
    ])
  })
})

describe('deliveries.redeliver', () => {
  it('sends one again that had arrived, with the same id and body', async () => {
    await using receiver = await endpoint(takes)
    const webhook_id = await hook(receiver.url)
    const { id } = await ping(server.client, webhook_id)
    const again = await server.client.deliveries.redeliver({ params: { webhook_id, id } })
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
      await deliveryThat(server.client, { webhook_id, id }, (delivery) => delivery.attempts === attempts)
    }
    const delivery = await server.client.deliveries.get({ params: { webhook_id, id } })
    expect(delivery).toMatchObject({ status: 'pending', attempts: 12 })
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
})

describe('webhooks.recover', () => {
  it('sends everything again that failed since then, and nothing else', async () => {
    let broken = true
    await using receiver = await endpoint((response) => response.writeHead(broken ? 500 : 204).end())
    const id = await hook(receiver.url)
    const failed = [await ping(server.client, id), await ping(server.client, id), await ping(server.client, id)]
    const [old, ...recent] = failed.map((delivery) => delivery.id)
    await server.database.query(
      `update deliveries set status = 'failed', next_attempt_at = null, finished_at = now() where webhook_id = $1`,
      [id],
    )
    await server.database.query(`update deliveries set finished_at = '2020-01-01' where id = $1`, [old])
    broken = false
    const arrived = await ping(server.client, id)
    const recovered = await server.client.webhooks.recover({
      params: { id },
      body: { since: '2021-01-01T00:00:00+02:00' },
    })
    expect(recovered).toMatchObject({ id, recovered: 2 })
    for (const one of recent) {
      const delivery = await deliveryThat(server.client, { webhook_id: id, id: String(one) }, (d) => d.attempts === 2)
      expect(delivery.status).toBe('succeeded')
    }
    const unchanged = await server.client.deliveries.get({ params: { webhook_id: id, id: String(old) } })
    expect(unchanged).toMatchObject({ status: 'failed', attempts: 1 })
    expect(receiver.requests.filter(({ headers }) => headers['webhook-id'] === arrived.event_id)).toHaveLength(1)
  })

  it.each([[undefined], ['yesterday'], ['2026-13-01T00:00:00Z'], [5]])('refuses the time %s', async (since) => {
    const id = await hook('https://example.com')
    const recovering = server.client.webhooks.recover({ params: { id }, body: { since } as { since: string } })
    await expect(recovering).rejects.toMatchObject({ code: 'invalid_request', details: { field: 'since' } })
  })

  it.each(['0000-01-01T00:00:00Z', '0001-01-01T00:00:00+14:00', '9999-12-31T23:59:59-14:00'])(
    'takes the time %s',
    async (since) => {
      const id = await hook('https://example.com')
      expect(await server.client.webhooks.recover({ params: { id }, body: { since } })).toMatchObject({ recovered: 0 })
    },
  )
})
