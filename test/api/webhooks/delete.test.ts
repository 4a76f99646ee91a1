import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { answers, ping, testEndpoint } from '../../harness/endpoint.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const create = (body: { url?: string } = {}) =>
  server.client.webhooks.create({ body: { url: 'https://example.com', ...body } })

describe('DELETE /webhooks/:id', () => {
  it('also removes the deliveries, and sends nothing any more', async () => {
    await using endpoint = await testEndpoint(answers(500))
    const { id } = await create({ url: endpoint.url })
    await ping(server.client, id)
    await succeed(caller(), 'webhooks.delete', { id })
    await expect(server.client.deliveries.list({ params: { webhook_id: id } })).rejects.toMatchObject({
      code: 'not_found',
    })
    expect(await server.database.query('select 1 from deliveries where webhook_id = $1', [id])).toEqual([])
  })

  it('answers 404 a second time', async () => {
    const { id } = await create()
    await server.client.webhooks.delete({ params: { id } })
    await expect(server.client.webhooks.delete({ params: { id } })).rejects.toMatchObject({ code: 'not_found' })
    expect((await server.client.webhooks.list()).webhooks.map((each) => each.id)).not.toContain(id)
  })

  it('answers the same 404 as for an id that never existed, and the webhook stays as it is', async () => {
    const { secret: _, ...made } = await create()
    await expectNotFound(server, 'webhooks.delete', { id: made.id })
    expect(await server.client.webhooks.get({ params: { id: made.id } })).toEqual(made)
  })
})
