import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const create = (body: object = {}) => server.client.webhooks.create({ body: { url: 'https://example.com', ...body } })
const newProject = async () => (await server.client.projects.create({ body: { name: 'p' } })).id

describe('GET /webhooks', () => {
  it('lists newest first, without secrets, page by page', async () => {
    const account = await server.accounts.create({ name: 'lister', plan: 'free' })
    const apiKey = await server.key({ accountId: account.id })
    const client = server.clientFor(apiKey)
    const made = []
    for (const url of ['https://example.com/1', 'https://example.com/2', 'https://example.com/3']) {
      const { secret: _, ...shown } = await client.webhooks.create({ body: { url } })
      made.unshift(shown)
    }
    expect(await succeed(withKey(server, apiKey), 'webhooks.list', {})).toEqual({ webhooks: made })
    const pages = []
    for await (const { webhooks } of client.webhooks.list.pages({ query: { limit: 2 } })) pages.push(webhooks)
    expect(pages).toEqual([made.slice(0, 2), made.slice(2)])
  })

  it('shows a key bound to projects only the webhooks of its projects', async () => {
    const [one, two] = [await newProject(), await newProject()]
    await create()
    const { id } = await create({ project_id: one })
    const own = server.clientFor(await server.key({ projectIds: [one] }))
    const foreign = server.clientFor(await server.key({ projectIds: [two] }))
    expect((await own.webhooks.list()).webhooks.map((each) => each.id)).toEqual([id])
    expect((await foreign.webhooks.list()).webhooks).toEqual([])
  })

  it.each([
    [{ limit: 0 }, 'limit'],
    [{ cursor: 'nonsense' }, 'cursor'],
  ])('refuses %j', async (query, field) => {
    await expect(server.client.webhooks.list({ query })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field },
    })
  })
})
