import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { takes, testEndpoint } from '../../harness/endpoint.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const create = (body: { url?: string; events?: string[] } = {}) =>
  server.client.webhooks.create({ body: { url: 'https://example.com', ...body } as { url: string } })

describe('POST /webhooks/:id/test', () => {
  it('sends a ping only to this webhook, even when its events do not include it', async () => {
    await using endpoint = await testEndpoint(takes)
    await using other = await testEndpoint(takes)
    const { id } = await create({ url: endpoint.url, events: ['deployment.failed'] })
    await create({ url: other.url })
    expect(await succeed(caller(), 'webhooks.test', { id })).toEqual({
      id: expect.stringMatching(/^dlv_/),
      webhook_id: id,
      event_id: expect.stringMatching(/^evt_/),
      event: 'ping',
      status: 'pending',
      attempts: 0,
      next_attempt_at: expect.any(String),
      last_status: null,
      last_error: null,
      created_at: expect.any(String),
      finished_at: null,
    })
    await endpoint.waitFor(1)
    expect(JSON.parse(endpoint.requests[0]?.body ?? '')).toEqual({
      event: 'ping',
      timestamp: expect.stringMatching(/Z$/),
      data: { webhook_id: id },
    })
    expect(other.requests).toEqual([])
  })

  it('refuses a disabled webhook', async () => {
    const { id } = await create()
    await server.client.webhooks.update({ params: { id }, body: { status: 'disabled' } })
    await expect(server.client.webhooks.test({ params: { id } })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field: 'status' },
    })
  })

  it('answers the same 404 as for an id that never existed, and the webhook stays as it is', async () => {
    const { secret: _, ...made } = await create()
    await expectNotFound(server, 'webhooks.test', { id: made.id })
    expect(await server.client.webhooks.get({ params: { id: made.id } })).toEqual(made)
  })
})
