import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let project_id: string
beforeAll(async () => {
  server = await testServer()
  project_id = (await server.client.projects.create({ body: { name: 'p' } })).id
})
afterAll(() => server?.[Symbol.asyncDispose]())

const secret = 'password-that-nobody-reads'
const set = (body: object) =>
  server.client.registries.set({
    params: { project_id },
    body: { registry: 'registry.example', username: 'deploy', password: secret, ...body },
  })

describe('POST /projects/:project_id/registries', () => {
  it('stores a password encrypted, and replaces the project’s password for the registry', async () => {
    const caller = withKey(server, server.apiKey)
    const body = { registry: 'registry.example:5000', username: 'one', password: secret }
    const first = await succeed(caller, 'registries.set', { project_id }, body)
    const second = await succeed(caller, 'registries.set', { project_id }, { ...body, username: 'two' })
    expect(second).toEqual({
      id: first.id,
      registry: 'registry.example:5000',
      username: 'two',
      created_at: expect.any(String),
    })
    expect(first.id).toMatch(/^reg_/)
    const stored = await server.database.query<{ password: Buffer }>(
      'select password from registries where project_id = $1',
      [project_id],
    )
    expect(stored.map(({ password }) => password.includes(secret))).toEqual([false])
    await expectNotFound(server, 'registries.set', { project_id })
  })

  it('treats the several hosts of Docker Hub as one', async () => {
    expect(await set({ registry: 'index.docker.io' })).toMatchObject({ registry: 'docker.io' })
  })

  it('records the registry and the user in the audit log, and not the password', async () => {
    const { client } = await server.signIn()
    await set({ registry: 'audited.example' })
    const [entry] = (await client.auditLog.list({ query: { limit: 1 } })).entries
    expect(entry).toMatchObject({ operation: 'registries.set', project_id })
    expect(entry?.details).toEqual({ registry: 'audited.example', username: 'deploy' })
    expect(JSON.stringify(entry)).not.toContain(secret)
  })

  it.each([
    ['an address', { registry: 'https://registry.example' }, 'registry'],
    ['the name of an image', { registry: 'registry.example/shop' }, 'registry'],
    ['a word that is no registry', { registry: 'registry' }, 'registry'],
    ['an option', { registry: '-registry.example' }, 'registry'],
    ['an invalid port', { registry: 'registry.example:70000' }, 'registry'],
    ['a user name that ends at its colon', { username: 'a:b' }, 'username'],
    ['a password with the end of a header', { password: 'a\r\nX-Other: b' }, 'password'],
    ['no password', { password: '' }, 'password'],
  ])('refuses %s', async (_, body, field) => {
    await expect(set(body)).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
  })

  it('refuses the fifty-first registry of a project, and changes existing ones', async () => {
    const { id } = await server.client.projects.create({ body: { name: 'many' } })
    const store = (registry: string) =>
      server.client.registries.set({ params: { project_id: id }, body: { registry, username: 'u', password: 'p' } })
    for (let number = 1; number <= 50; number++) await store(`registry-${number}.example`)
    await expect(store('one-more.example')).rejects.toMatchObject({ details: { field: 'registry' } })
    await store('registry-50.example')
  })
})
