import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { createdDatabase, query } from '../../harness/databases.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const newProject = async () => (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id

describe('POST /projects/:project_id/databases/:id/rotate-password', () => {
  it('answers with a new connection string; the old one is no longer valid', async () => {
    const project_id = await newProject()
    const { id, connection_string } = await createdDatabase(server.client, project_id)
    const rotated = await succeed(caller(), 'databases.rotatePassword', { project_id, id })
    expect(rotated).toMatchObject({ id, name: 'db', type: 'postgresql', version: '18', status: 'available' })
    expect(await query(rotated.connection_string, 'select 1')).toEqual([[1]])
    await expect(query(connection_string, 'select 1')).rejects.toMatchObject({ code: '28P01' })
  })

  it('refuses a deleted database', async () => {
    const project_id = await newProject()
    const { id } = await createdDatabase(server.client, project_id)
    await server.client.databases.delete({ params: { project_id, id } })
    await expect(server.client.databases.rotatePassword({ params: { project_id, id } })).rejects.toMatchObject({
      code: 'invalid_request',
      details: { field: 'id' },
    })
  })

  it('answers the same 404 as for an id that never existed, and the password stays', async () => {
    const project_id = await newProject()
    const { id, connection_string } = await createdDatabase(server.client, project_id)
    await expectNotFound(server, 'databases.rotatePassword', { project_id, id })
    expect(await query(connection_string, 'select 1')).toEqual([[1]])
  })
})
