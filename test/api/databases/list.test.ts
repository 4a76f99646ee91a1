import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { createdDatabase } from '../../harness/databases.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const newProject = async () => (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id

describe('GET /projects/:project_id/databases', () => {
  it('lists newest first, in pages, without passwords', async () => {
    const project_id = await newProject()
    const one = await createdDatabase(server.client, project_id, { name: 'one' })
    const two = await createdDatabase(server.client, project_id, { name: 'two' })
    await server.client.databases.delete({ params: { project_id, id: one.id } })
    const shown = ({ id, name, type, version }: typeof one) => ({ id, name, type, version, plan: 'starter' })
    const created_at = expect.stringMatching(/\.\d{3}Z$/)
    expect(await succeed(caller(), 'databases.list', { project_id })).toEqual({
      databases: [
        { ...shown(two), status: 'available', created_at },
        { ...shown(one), status: 'deleting', created_at },
      ],
    })
    const pages = []
    for await (const page of server.client.databases.list.pages({ params: { project_id }, query: { limit: 1 } })) {
      pages.push(page.databases.map(({ id }) => id))
    }
    expect(pages).toEqual([[two.id], [one.id]])
  })

  it.each([
    [{ limit: 0 }, 'limit'],
    [{ cursor: 'nonsense' }, 'cursor'],
  ])('refuses %j', async (query, field) => {
    const project_id = await newProject()
    await expect(server.client.databases.list({ params: { project_id }, query })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field },
    })
  })

  it('answers the same 404 as for a project that never existed', async () => {
    await expectNotFound(server, 'databases.list', { project_id: await newProject() })
  })
})
