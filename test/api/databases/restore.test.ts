import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { createdDatabase, query, untilDatabase } from '../../harness/databases.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const newProject = async () => (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id

describe('POST /projects/:project_id/databases/:id/restore', () => {
  it('restores the content under the same connection string', async () => {
    const project_id = await newProject()
    const { id, connection_string } = await createdDatabase(server.client, project_id)
    await query(connection_string, 'create table kept as select 42 as answer')
    await server.client.databases.delete({ params: { project_id, id } })
    expect(await succeed(caller(), 'databases.restore', { project_id, id })).toMatchObject({
      id,
      status: 'provisioning',
      restorable_until: null,
    })
    await untilDatabase(server.client, project_id, id)
    expect(await query(connection_string, 'select answer from kept')).toEqual([[42]])
  })

  it('refuses a database that is not deleted', async () => {
    const project_id = await newProject()
    const { id } = await createdDatabase(server.client, project_id)
    await expect(server.client.databases.restore({ params: { project_id, id } })).rejects.toMatchObject({
      code: 'invalid_request',
    })
  })

  it('refuses a database beyond the limit of the project’s plan', async () => {
    const { id: project_id } = await server.client.projects.create({ body: { name: 'small' } })
    const { id } = await createdDatabase(server.client, project_id)
    await server.client.databases.delete({ params: { project_id, id } })
    for (const name of ['a', 'b']) await createdDatabase(server.client, project_id, { name })
    await expect(server.client.databases.restore({ params: { project_id, id } })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { max_databases: 2 },
    })
    expect((await server.client.databases.get({ params: { project_id, id } })).status).toBe('deleting')
  })

  it('answers the same 404 as for an id that never existed, and it stays deleted', async () => {
    const project_id = await newProject()
    const { id } = await createdDatabase(server.client, project_id)
    await server.client.databases.delete({ params: { project_id, id } })
    await expectNotFound(server, 'databases.restore', { project_id, id })
    expect((await server.client.databases.get({ params: { project_id, id } })).status).toBe('deleting')
  })
})
