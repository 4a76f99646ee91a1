import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { signedIn, succeed } from '../../harness/conformance.ts'
import { type SignedInBrowser, type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let user: SignedInBrowser
beforeAll(async () => {
  server = await testServer()
  user = await server.signIn()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /api-keys', () => {
  it('lists the fields of the creation without the key itself, revoked and expired keys included', async () => {
    const { key: _, ...made } = await user.client.apiKeys.create({ body: { name: 'a', preset: 'read' } })
    const listed = async () =>
      (await succeed(signedIn(server, user), 'apiKeys.list', {})).api_keys.find(({ id }) => id === made.id)
    expect(await listed()).toEqual(made)
    await user.client.apiKeys.delete({ params: { id: made.id } })
    await server.database.query("update api_keys set expires_at = now() - interval '1 day' where id = $1", [made.id])
    expect(await listed()).toEqual({ ...made, expires_at: expect.any(String), revoked_at: expect.any(String) })
  })

  it('lists only the keys of the account, newest first, page by page', async () => {
    const { id } = await server.accounts.create({ name: 'lister', plan: 'free' })
    const lister = await server.signIn({ accountId: id })
    const made = []
    for (const name of ['one', 'two', 'three']) {
      made.unshift((await lister.client.apiKeys.create({ body: { name, preset: 'read' } })).id)
    }
    const pages = []
    for await (const page of lister.client.apiKeys.list.pages({ query: { limit: 2 } })) {
      pages.push(page.api_keys.map((key) => key.id))
    }
    expect(pages).toEqual([made.slice(0, 2), made.slice(2)])
  })

  it.each([
    [{ limit: 0 }, 'limit'],
    [{ cursor: 'nonsense' }, 'cursor'],
  ])('refuses %j', async (query, field) => {
    await expect(user.client.apiKeys.list({ query })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field },
    })
  })
})
