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

describe('POST /api-keys/:id/rotate', () => {
  it('returns a key with the same rights, and keeps the old one valid for a day', async () => {
    const { id: projectId } = await user.client.projects.create({ body: { name: 'p' } })
    const old = await user.client.apiKeys.create({
      body: { name: 'ci', scopes: ['projects:read'], project_ids: [projectId], expires_in_days: 90 },
    })
    const made = await succeed(signedIn(server, user), 'apiKeys.rotate', { id: old.id }, {})
    expect(made.id).not.toBe(old.id)
    expect(made.key).not.toBe(old.key)
    expect(made).toMatchObject({ name: 'ci', scopes: ['projects:read'], project_ids: [projectId] })
    expect(Date.parse(made.expires_at ?? '')).toBeCloseTo(Date.now() + 90 * 86_400_000, -5)
    await server.clientFor(made.key).projects.list()
    await server.clientFor(old.key).projects.list()
    const listed = (await user.client.apiKeys.list()).api_keys.find(({ id }) => id === old.id)
    expect(Date.parse(listed?.expires_at ?? '')).toBeCloseTo(Date.now() + 86_400_000, -5)
  })

  it('ends the old key at once without an overlap, and never extends its life', async () => {
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
    await expect(user.client.apiKeys.rotate({ params: { id }, body })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field: 'overlap_hours' },
    })
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { id } = await user.client.apiKeys.create({ body: { name: 'a', preset: 'read' } })
    await expectNotFound(server, 'apiKeys.rotate', { id }, signedIn(server, user))
  })
})
