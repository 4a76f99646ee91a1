import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { ping, testEndpoint } from '../../harness/endpoint.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const hook = async (url: string) => (await server.client.webhooks.create({ body: { url } })).id

describe('GET /webhooks/:webhook_id/deliveries', () => {
  it('is newest first, in pages, and filtered by status and event', async () => {
    await using endpoint = await testEndpoint((response, _, count) => response.writeHead(count === 2 ? 410 : 204).end())
    const webhook_id = await hook(endpoint.url)
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
    const { deliveries } = await succeed(caller(), 'deliveries.list', { webhook_id })
    expect(deliveries[0]).toEqual(shown)
  })

  it.each([
    ['status', 'lost'],
    ['event', 'deployment.*'],
    ['event', ''],
    ['limit', 0],
    ['cursor', 'nonsense'],
  ])('refuses %s=%s', async (field, value) => {
    const webhook_id = await hook('https://example.com')
    const listing = server.client.deliveries.list({ params: { webhook_id }, query: { [field]: value } as object })
    await expect(listing).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
  })

  it('answers the same 404 as for a webhook that never existed', async () => {
    await expectNotFound(server, 'deliveries.list', { webhook_id: await hook('https://example.com') })
  })
})
