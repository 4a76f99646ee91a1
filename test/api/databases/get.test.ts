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

describe('GET /projects/:project_id/databases/:id', () => {
  it('answers with sizes and limits, without the password', async () => {
    const project_id = await newProject()
    const { connection_string: _, ...made } = await createdDatabase(server.client, project_id, {
      name: 'db',
      plan: 'free',
    })
    // An answer has no size while the engine is busy.
    const read = () => succeed(caller(), 'databases.get', { project_id, id: made.id })
    await expect.poll(read).toEqual({
      ...made,
      status: 'available',
      project_id,
      plan: 'free',
      created_at: expect.stringMatching(/\.\d{3}Z$/),
      access: 'local',
      size_bytes: expect.any(Number),
      max_size_bytes: 1e9,
      connections: expect.any(Number),
      max_connections: 10,
      read_only: false,
      failure: null,
      restorable_until: null,
    })
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const project_id = await newProject()
    const { id } = await createdDatabase(server.client, project_id)
    await expectNotFound(server, 'databases.get', { project_id, id })
  })
})
