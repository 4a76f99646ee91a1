import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { ping, takes, testEndpoint } from '../../harness/endpoint.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const hook = async (url: string) => (await server.client.webhooks.create({ body: { url } })).id

describe('GET /webhooks/:webhook_id/deliveries/:id', () => {
  it('shows all attempts, newest first', async () => {
    await using endpoint = await testEndpoint((response, _, count) =>
      response.writeHead(count === 1 ? 503 : 200, { 'x-count': String(count) }).end(`answer ${count}`),
    )
    const { webhook_id, id } = await ping(server.client, await hook(endpoint.url), 2)
    const { latest_attempts } = await succeed(caller(), 'deliveries.get', { webhook_id, id })
    expect(latest_attempts).toMatchObject([
      { number: 2, response: { status: 200, headers: { 'x-count': '2' }, body: 'answer 2' } },
      { number: 1, response: { status: 503, headers: { 'x-count': '1' }, body: 'answer 1' } },
    ])
  })

  it('answers the same 404 as for an id that never existed, also for a delivery of another webhook', async () => {
    await using endpoint = await testEndpoint(takes)
    const [one, two] = [await hook(endpoint.url), await hook(endpoint.url)]
    const { id } = await ping(server.client, one)
    await expectNotFound(server, 'deliveries.get', { webhook_id: one, id })
    await expect(server.client.deliveries.get({ params: { webhook_id: two, id } })).rejects.toMatchObject({
      code: 'not_found',
    })
  })
})
