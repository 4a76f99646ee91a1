import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, signedIn, succeed } from '../../harness/conformance.ts'
import { type SignedInBrowser, type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let user: SignedInBrowser
beforeAll(async () => {
  server = await testServer()
  user = await server.signIn()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('DELETE /api-keys/:id', () => {
  it('revokes a key at once, and a second call changes nothing', async () => {
    const made = await user.client.apiKeys.create({ body: { name: 'a', preset: 'read' } })
    const client = server.clientFor(made.key)
    await client.projects.list()
    await succeed(signedIn(server, user), 'apiKeys.delete', { id: made.id })
    await expect(client.projects.list()).rejects.toMatchObject({ code: 'unauthorized' })
    const revoked = async () => (await user.client.apiKeys.list()).api_keys.find(({ id }) => id === made.id)?.revoked_at
    const first = await revoked()
    expect(first).toEqual(expect.any(String))
    await user.client.apiKeys.delete({ params: { id: made.id } })
    expect(await revoked()).toBe(first)
  })

  it('applies to every request that arrives after it, however many are in progress', async () => {
    const made = await user.client.apiKeys.create({ body: { name: 'a', preset: 'read' } })
    const ask = async () => {
      const headers = { authorization: `Bearer ${made.key}` }
      return (await fetch(`${server.baseUrl}/projects`, { headers })).status
    }
    const before = Array.from({ length: 20 }, ask)
    await user.client.apiKeys.delete({ params: { id: made.id } })
    const after = await Promise.all(Array.from({ length: 10 }, ask))
    expect(new Set(after)).toEqual(new Set([401]))
    for (const status of await Promise.all(before)) expect([200, 401]).toContain(status)
  })

  it('answers the same 404 as for an id that never existed, and the key keeps working', async () => {
    const { id, key } = await user.client.apiKeys.create({ body: { name: 'a', preset: 'read' } })
    await expectNotFound(server, 'apiKeys.delete', { id }, signedIn(server, user))
    await server.clientFor(key).projects.list()
  })
})
