import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allScopes } from '../../server/src/accounts/scopes.ts'
import { type SignedInBrowser, type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
let user: SignedInBrowser
beforeAll(async () => {
  server = await testServer()
  user = await server.signIn()
})
afterAll(() => server[Symbol.asyncDispose]())

const problem = (field: string) => ({ code: 'invalid_request', details: { field } })

describe('POST /api-keys', () => {
  it('makes a key that works, and shows it this one time', async () => {
    const made = await user.client.apiKeys.create({ body: { name: ' ci ', preset: 'deploy', expires_in_days: 90 } })
    expect(made).toMatchObject({
      name: 'ci',
      preset: 'deploy',
      scopes: ['projects:read', 'deployments:read', 'deployments:write'],
      project_ids: null,
      last_used_at: null,
      revoked_at: null,
    })
    expect(made.hint).toBe(made.key.slice(0, 7))
    expect(Date.parse(made.expires_at ?? '') - Date.parse(made.created_at)).toBeCloseTo(90 * 86_400_000, -4)
    const client = server.clientFor(made.key)
    expect((await client.projects.list()).total).toBe(0)
    await expect(client.projects.create({ body: { name: 'p' } })).rejects.toMatchObject({ code: 'forbidden' })

    const listed = (await user.client.apiKeys.list()).api_keys.find(({ id }) => id === made.id)
    expect(listed).toEqual({ ...made, key: undefined, last_used_at: expect.any(String) })
  })

  it('answers 201 with the address of the key', async () => {
    const response = await user.fetch(`${server.url}/dashboard/api/api-keys`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'a', preset: 'full' }),
    })
    expect(response.status).toBe(201)
    const { id } = (await response.json()) as { id: string }
    expect(response.headers.get('location')).toBe(`/dashboard/api/api-keys/${id}`)
    expect(response.headers.get('cache-control')).toBe('no-store')
  })

  it('takes scopes one by one, and tells the preset that they make', async () => {
    const some = await user.client.apiKeys.create({ body: { name: 'a', scopes: ['webhooks:read', 'webhooks:read'] } })
    expect(some).toMatchObject({ preset: null, scopes: ['webhooks:read'], expires_at: null })
    const all = await user.client.apiKeys.create({ body: { name: 'a', scopes: [...allScopes].reverse() } })
    expect(all.preset).toBe('full')
  })

  it("binds a key to the account's own projects alone", async () => {
    const { id } = await user.client.projects.create({ body: { name: 'p' } })
    const made = await user.client.apiKeys.create({ body: { name: 'a', preset: 'read', project_ids: [id, id] } })
    expect(made.project_ids).toEqual([id])
    expect((await server.clientFor(made.key).projects.list()).projects.map((project) => project.id)).toEqual([id])

    const other = await server.accounts.create({ name: 'other', plan: 'free' })
    const foreign = await (await server.signIn({ accountId: other.id })).client.projects.create({ body: { name: 'q' } })
    for (const unknown of [foreign.id, 'proj_01h455vb4pex5vsknk084sn02q', 'nonsense']) {
      await expect(
        user.client.apiKeys.create({ body: { name: 'a', preset: 'read', project_ids: [id, unknown] } }),
      ).rejects.toMatchObject(problem('project_ids'))
    }
  })

  it.each([
    ['no name', { preset: 'full' }, 'name'],
    ['neither preset nor scopes', { name: 'a' }, 'preset'],
    ['preset and scopes', { name: 'a', preset: 'full', scopes: ['projects:read'] }, 'scopes'],
    ['an unknown preset', { name: 'a', preset: 'god' }, 'preset'],
    ['an unknown scope', { name: 'a', scopes: ['projects:read', 'moon:write'] }, 'scopes.1'],
    ['no scope at all', { name: 'a', scopes: [] }, 'scopes'],
    ['no project at all', { name: 'a', preset: 'full', project_ids: [] }, 'project_ids'],
    ['an end in the past', { name: 'a', preset: 'full', expires_in_days: 0 }, 'expires_in_days'],
    ['half a day', { name: 'a', preset: 'full', expires_in_days: 0.5 }, 'expires_in_days'],
    ['an end after eleven years', { name: 'a', preset: 'full', expires_in_days: 4000 }, 'expires_in_days'],
  ])('refuses %s', async (_, body, field) => {
    await expect(user.client.apiKeys.create({ body: body as never })).rejects.toMatchObject(problem(field))
  })
})

describe('GET /api-keys', () => {
  it('lists the keys of the account alone, newest first, page by page', async () => {
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
})

describe('DELETE /api-keys/:id', () => {
  it('ends a key at once, and a second time changes nothing', async () => {
    const made = await user.client.apiKeys.create({ body: { name: 'a', preset: 'read' } })
    const client = server.clientFor(made.key)
    await client.projects.list()
    await user.client.apiKeys.delete({ params: { id: made.id } })
    await expect(client.projects.list()).rejects.toMatchObject({ code: 'unauthorized' })
    const revoked = async () => (await user.client.apiKeys.list()).api_keys.find(({ id }) => id === made.id)?.revoked_at
    const first = await revoked()
    expect(first).toEqual(expect.any(String))
    await user.client.apiKeys.delete({ params: { id: made.id } })
    expect(await revoked()).toBe(first)
  })

  it('holds for every request that comes after it, however many are under way', async () => {
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

  it('answers 404 for the key of another account, which goes on', async () => {
    const { id } = await server.accounts.create({ name: 'other', plan: 'free' })
    const other = await server.signIn({ accountId: id })
    const theirs = await other.client.apiKeys.create({ body: { name: 'a', preset: 'read' } })
    for (const unknown of [theirs.id, 'key_01h455vb4pex5vsknk084sn02q', 'nonsense']) {
      await expect(user.client.apiKeys.delete({ params: { id: unknown } })).rejects.toMatchObject({ code: 'not_found' })
    }
    await server.clientFor(theirs.key).projects.list()
  })
})

describe('POST /api-keys/:id/rotate', () => {
  it('gives a key with the same rights, and lets the old one go on for a day', async () => {
    const { id: projectId } = await user.client.projects.create({ body: { name: 'p' } })
    const old = await user.client.apiKeys.create({
      body: { name: 'ci', scopes: ['projects:read'], project_ids: [projectId], expires_in_days: 90 },
    })
    const made = await user.client.apiKeys.rotate({ params: { id: old.id }, body: {} })
    expect(made.id).not.toBe(old.id)
    expect(made.key).not.toBe(old.key)
    expect(made).toMatchObject({ name: 'ci', scopes: ['projects:read'], project_ids: [projectId] })
    expect(Date.parse(made.expires_at ?? '')).toBeCloseTo(Date.now() + 90 * 86_400_000, -5)
    await server.clientFor(made.key).projects.list()
    await server.clientFor(old.key).projects.list()
    const listed = (await user.client.apiKeys.list()).api_keys.find(({ id }) => id === old.id)
    expect(Date.parse(listed?.expires_at ?? '')).toBeCloseTo(Date.now() + 86_400_000, -5)
  })

  it('ends the old key at once without an overlap, and never gives it more time than it had', async () => {
    const old = await user.client.apiKeys.create({ body: { name: 'a', preset: 'read', expires_in_days: 1 } })
    await user.client.apiKeys.rotate({ params: { id: old.id }, body: { overlap_hours: 168 } })
    const listed = (await user.client.apiKeys.list()).api_keys.find(({ id }) => id === old.id)
    expect(listed?.expires_at).toBe(old.expires_at)
    await user.client.apiKeys.rotate({ params: { id: old.id }, body: { overlap_hours: 0 } })
    await expect(server.clientFor(old.key).projects.list()).rejects.toMatchObject({ code: 'unauthorized' })
    await expect(user.client.apiKeys.rotate({ params: { id: old.id }, body: {} })).rejects.toMatchObject({
      code: 'invalid_request',
    })
  })

  it.each([-1, 169, 1.5, '24'])('refuses an overlap of %j hours', async (hours) => {
    const { id } = await user.client.apiKeys.create({ body: { name: 'a', preset: 'read' } })
    const body = { overlap_hours: hours as number }
    await expect(user.client.apiKeys.rotate({ params: { id }, body })).rejects.toMatchObject(problem('overlap_hours'))
  })

  it('answers 404 for what is not there', async () => {
    const params = { id: 'key_01h455vb4pex5vsknk084sn02q' }
    await expect(user.client.apiKeys.rotate({ params, body: {} })).rejects.toMatchObject({ code: 'not_found' })
  })
})

it('refuses keys everything about keys, whatever they may do else', async () => {
  await expect(server.client.apiKeys.list()).rejects.toMatchObject({ code: 'forbidden' })
  await expect(server.client.apiKeys.create({ body: { name: 'a', preset: 'full' } })).rejects.toMatchObject({
    code: 'forbidden',
  })
  await expect(server.client.auditLog.list()).rejects.toMatchObject({ code: 'forbidden' })
})
