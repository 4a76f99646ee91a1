import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allScopes } from '../../../server/src/features/accounts/scopes.ts'
import { type SignedInBrowser, type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let user: SignedInBrowser
beforeAll(async () => {
  server = await testServer()
  user = await server.signIn()
})
afterAll(() => server[Symbol.asyncDispose]())

const problem = (field: string) => ({ code: 'invalid_request', details: { field } })

describe('POST /api-keys', () => {
  it('creates a key that works, and shows it only once', async () => {
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

  it('accepts single scopes, and reports the preset that they match', async () => {
    const some = await user.client.apiKeys.create({ body: { name: 'a', scopes: ['webhooks:read', 'webhooks:read'] } })
    expect(some).toMatchObject({ preset: null, scopes: ['webhooks:read'], expires_at: null })
    const all = await user.client.apiKeys.create({ body: { name: 'a', scopes: [...allScopes].reverse() } })
    expect(all.preset).toBe('full')
  })

  it("binds a key only to the account's own projects", async () => {
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
