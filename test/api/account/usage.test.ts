import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /account/usage', () => {
  it('counts the limited resources of the account, over all projects', async () => {
    const { id } = await server.accounts.create({ name: 'Small shop', plan: 'free' })
    const key = await server.key({ accountId: id, preset: 'full' })
    const client = server.clientFor(key)
    const [shop] = await Promise.all(['shop', 'blog'].map((name) => client.projects.create({ body: { name } })))
    const params = { project_id: shop?.id ?? '' }
    await client.databases.create({ params, body: { name: 'orders', plan: 'free' } })
    const form = new FormData()
    form.append('file', new Blob(['12345']), 'a.txt')
    await client.storage.upload({ params, body: form })
    await server.client.projects.create({ body: { name: 'of another account' } })
    const { usage } = await succeed(withKey(server, key), 'account.usage', {})
    expect(Object.fromEntries(usage.map(({ limit, used, most }) => [limit, [used, most]]))).toEqual({
      projects: [2, 20],
      apps: [0, 25],
      databases: [1, 10],
      storage_gb: [5e-9, 10],
      building: [0, 10],
      runs: [0, 5],
      schedules: [0, 20],
      domains: [0, 25],
      api_keys: [1, 100],
    })
  })

  it('hides other projects from a key that is bound to a project', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'one of several' } })
    const bound = server.clientFor(await server.key({ preset: 'full', projectIds: [id] }))
    await expect(bound.account.usage()).rejects.toMatchObject({
      code: 'forbidden',
      message: expect.stringContaining('for the whole account'),
    })
  })
})
