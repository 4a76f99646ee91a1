import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { connect, createdDatabase, untilDatabase } from '../../harness/databases.ts'
import { ownServer, type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)
const newProject = async () => (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id

describe('DELETE /projects/:project_id/databases/:id', () => {
  it('refuses logins, and keeps the content until the retention is over', async () => {
    const project_id = await newProject()
    const { id, connection_string } = await createdDatabase(server.client, project_id)
    await using open = await connect(connection_string)
    const ended = new Promise((done) => open.once('end', done))
    await succeed(caller(), 'databases.delete', { project_id, id })
    await ended
    await expect(connect(connection_string)).rejects.toMatchObject({ code: expect.stringMatching(/^(28000|3D000)$/) })
    const deleted = await server.client.databases.get({ params: { project_id, id } })
    expect(deleted.status).toBe('deleting')
    const days = (Date.parse(deleted.restorable_until ?? '') - Date.now()) / 86_400_000
    expect(days).toBeGreaterThan(6.9)
    expect((await server.client.projects.get({ params: { project_id } })).resources.databases).toBe(0)
    // A second deletion changes nothing.
    await succeed(caller(), 'databases.delete', { project_id, id })
    expect(await server.client.databases.get({ params: { project_id, id } })).toEqual(deleted)
  })

  it('removes it for good when the retention is over', async () => {
    await using other = await ownServer({ FAIRLEAD_DATABASE_RETENTION_DAYS: '0' })
    const project = (await other.client.projects.create({ body: { name: 'p' } })).id
    const { id, connection_string } = await createdDatabase(other.client, project)
    await other.client.databases.delete({ params: { project_id: project, id } })
    await expect(untilDatabase(other.client, project, id, () => false)).rejects.toMatchObject({ code: 'not_found' })
    await expect(connect(connection_string)).rejects.toMatchObject({ code: '28P01' })
  })

  it('answers the same 404 as for an id that never existed, and logins work as before', async () => {
    const project_id = await newProject()
    const { id, connection_string } = await createdDatabase(server.client, project_id)
    await expectNotFound(server, 'databases.delete', { project_id, id })
    await using _open = await connect(connection_string)
  })
})
