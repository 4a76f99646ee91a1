import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

describe('GET /projects', () => {
  it('lists the projects of the account, newest first, with the specified fields', async () => {
    const account = await server.accounts.create({ name: 'lister', plan: 'pro' })
    const client = server.clientFor(await server.key({ accountId: account.id }))
    const first = await client.projects.create({ body: { name: 'first', region: 'eu-1' } })
    const second = await client.projects.create({ body: { name: 'second' } })
    expect(await client.projects.list()).toEqual({
      projects: [
        { id: second.id, name: 'second', region: 'local', created_at: second.created_at, status: 'active' },
        { id: first.id, name: 'first', region: 'eu-1', created_at: first.created_at, status: 'active' },
      ],
      total: 2,
    })
  })

  it('reports the total correctly over concurrent creations and deletions', async () => {
    const account = await server.accounts.create({ name: 'counter', plan: 'free' })
    const client = server.clientFor(await server.key({ accountId: account.id }))
    const total = async () => (await client.projects.list({ query: { limit: 1 } })).total
    expect(await total()).toBe(0)
    const made = await Promise.all(Array.from({ length: 20 }, () => client.projects.create({ body: { name: 'p' } })))
    expect(await total()).toBe(20)
    await server.database.query('delete from projects where id = any($1)', [made.slice(0, 15).map(({ id }) => id)])
    expect(await total()).toBe(5)
    await server.database.query("update projects set name = 'q' where account_id = $1", [account.id])
    expect(await total()).toBe(5)
  })

  it('shows a bound key only its own projects', async () => {
    const one = await server.client.projects.create({ body: { name: 'one' } })
    await server.client.projects.create({ body: { name: 'two' } })
    const client = server.clientFor(await server.key({ projectIds: [one.id] }))
    const listed = await client.projects.list()
    expect(listed.projects.map(({ id }) => id)).toEqual([one.id])
    expect(listed.total).toBe(1)
  })

  it('pages through all projects by the Link header, neither skipping nor repeating during creations', async () => {
    const account = await server.accounts.create({ name: 'pager', plan: 'enterprise' })
    const client = server.clientFor(await server.key({ accountId: account.id }))
    const before: string[] = []
    for (let i = 0; i < 25; i++) before.unshift((await client.projects.create({ body: { name: `p${i}` } })).id)
    const seen: string[] = []
    for await (const { projects, total } of client.projects.list.pages({ query: { limit: 4 } })) {
      expect(projects.length).toBeLessThanOrEqual(4)
      expect(total).toBeGreaterThanOrEqual(25)
      seen.push(...projects.map(({ id }) => id))
      await client.projects.create({ body: { name: 'meanwhile' } })
    }
    expect(seen).toEqual(before)
  })

  it('names the next page in the Link header, and no page after the last', async () => {
    const account = await server.accounts.create({ name: 'linker', plan: 'enterprise' })
    const key = await server.key({ accountId: account.id })
    for (const name of ['a', 'b', 'c']) await server.clientFor(key).projects.create({ body: { name } })
    const ask = (path: string) => fetch(server.url + path, { headers: { authorization: `Bearer ${key}` } })
    const first = await ask('/v1/projects?limit=2')
    const link = /^<([^>]+)>; rel="next"$/.exec(first.headers.get('link') ?? '')?.[1] ?? ''
    expect(link).toMatch(/^\/v1\/projects\?limit=2&cursor=/)
    const second = await ask(link)
    expect(((await second.json()) as { projects: unknown[] }).projects).toHaveLength(1)
    expect(second.headers.get('link')).toBeNull()
    expect((await ask('/v1/projects?limit=3')).headers.get('link')).toBeNull()
  })

  it.each([
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['limit=ten', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['limit=', 'limit'],
    ['cursor=nonsense', 'cursor'],
    ['cursor=%00', 'cursor'],
  ])('refuses %s', async (query, field) => {
    const response = await fetch(`${server.baseUrl}/projects?${query}`, {
      headers: { authorization: `Bearer ${server.apiKey}` },
    })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', details: { field } } })
  })
})
