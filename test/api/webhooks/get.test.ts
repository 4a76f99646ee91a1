import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)

const create = (body: { url?: string; events?: string[]; rate?: number; project_id?: string } = {}) =>
  server.client.webhooks.create({ body: { url: 'https://example.com', ...body } as { url: string } })

describe('GET /webhooks/:id', () => {
  it('answers with the webhook without its secret', async () => {
    const { secret, ...made } = await create({ rate: 5 })
    expect(await succeed(caller(), 'webhooks.get', { id: made.id })).toEqual(made)
    expect(made).toMatchObject({ rate: 5, disabled_reason: null })
    expect(secret).toMatch(/^whsec_/)
  })

  it('needs only a key that may read', async () => {
    const { id } = await create()
    const reader = server.clientFor(await server.key({ preset: 'read' }))
    await reader.webhooks.get({ params: { id } })
    await expect(reader.webhooks.update({ params: { id }, body: {} })).rejects.toMatchObject({ code: 'forbidden' })
    await expect(reader.webhooks.test({ params: { id } })).rejects.toMatchObject({ code: 'forbidden' })
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { secret: _, ...made } = await create()
    await expectNotFound(server, 'webhooks.get', { id: made.id })
    expect(await server.client.webhooks.get({ params: { id: made.id } })).toEqual(made)
  })
})
