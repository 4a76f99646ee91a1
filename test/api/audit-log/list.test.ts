import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { signedIn, succeed } from '../../harness/conformance.ts'
import { ownServer, type SignedInBrowser, type TestServer } from '../../harness/server.ts'

let server: TestServer
let user: SignedInBrowser
beforeAll(async () => {
  server = await ownServer({ FAIRLEAD_TRUSTED_PROXIES: '127.0.0.1' })
  user = await server.signIn()
})
afterAll(() => server[Symbol.asyncDispose]())

const entries = async (of = user) => (await of.client.auditLog.list({ query: { limit: 50 } })).entries
const latest = async () => (await entries())[0]

describe('GET /audit-log', () => {
  it('shows which key changed what, from where, under which request id', async () => {
    const response = await fetch(`${server.baseUrl}/projects`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${server.apiKey}`,
        'content-type': 'application/json',
        'x-request-id': 'the-request',
        'x-forwarded-for': '198.51.100.1, 192.0.2.7',
      },
      body: JSON.stringify({ name: 'p' }),
    })
    const { id, created_at } = (await response.json()) as { id: string; created_at: string }
    const entry = (await succeed(signedIn(server, user), 'auditLog.list', {})).entries[0]
    expect(entry).toEqual({
      id: expect.stringMatching(/^aud_/),
      at: expect.any(String),
      actor: { type: 'key', id: expect.stringMatching(/^key_/), name: 'test' },
      address: '192.0.2.7',
      request_id: 'the-request',
      operation: 'projects.create',
      project_id: null,
      resource_id: id,
      details: null,
    })
    // The transaction of the change writes the entry, so both have the same time.
    expect(entry?.at).toBe(created_at)
  })

  it('names the user, and the resource of the path when the response is empty', async () => {
    const made = await user.client.apiKeys.create({ body: { name: 'a', preset: 'read' } })
    expect(await latest()).toMatchObject({
      actor: { type: 'user', id: user.userId, name: user.email },
      operation: 'apiKeys.create',
      resource_id: made.id,
    })
    await user.client.apiKeys.delete({ params: { id: made.id } })
    expect(await latest()).toMatchObject({ operation: 'apiKeys.delete', resource_id: made.id })
  })

  it('names the project of a resource inside one', async () => {
    const project = await server.client.projects.create({ body: { name: 'p' } })
    const deployment = await server.client.deployments.create({
      params: { project_id: project.id },
      body: { name: 'web', git_url: 'https://127.0.0.1:9/nothing.git' },
    })
    expect(await latest()).toMatchObject({
      operation: 'deployments.create',
      project_id: project.id,
      resource_id: deployment.id,
    })
  })

  it('has no entries for reads and refused requests', async () => {
    const before = await latest()
    await server.client.projects.list()
    await user.client.account.get()
    await expect(server.client.projects.create({ body: { name: '' } })).rejects.toMatchObject({ status: 400 })
    const params = { id: 'key_01h455vb4pex5vsknk084sn02q' }
    await expect(user.client.apiKeys.delete({ params })).rejects.toMatchObject({ status: 404 })
    expect(await latest()).toEqual(before)
  })

  it('contains no secret', async () => {
    const made = await user.client.apiKeys.create({ body: { name: 'a', preset: 'read' } })
    const rows = await server.database.query<{ row: string }>('select audit_entries::text as row from audit_entries')
    for (const secret of [made.key, server.apiKey, user.password, user.cookie().split('=')[1] ?? '']) {
      expect(rows.some(({ row }) => row.includes(secret))).toBe(false)
    }
  })

  it('shows users only the entries of their account, page by page', async () => {
    const { id } = await server.accounts.create({ name: 'other', plan: 'free' })
    const other = await server.signIn({ accountId: id })
    for (const name of ['one', 'two']) await other.client.projects.create({ body: { name } })
    const pages = []
    for await (const page of other.client.auditLog.list.pages({ query: { limit: 2 } })) pages.push(page.entries)
    expect(pages.map((page) => page.map(({ operation }) => operation))).toEqual([
      ['projects.create', 'projects.create'],
      ['setup.complete'],
    ])
  })

  it.each([
    [{ limit: 0 }, 'limit'],
    [{ cursor: 'nonsense' }, 'cursor'],
  ])('refuses %j', async (query, field) => {
    await expect(user.client.auditLog.list({ query })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field },
    })
  })
})
