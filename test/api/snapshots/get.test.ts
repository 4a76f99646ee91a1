import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { newDatabase, takenSnapshot } from '../../harness/databases.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let database: Awaited<ReturnType<typeof newDatabase>>
beforeAll(async () => {
  server = await testServer()
  database = await newDatabase(server.client)
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)

describe('GET /projects/:project_id/databases/:database_id/snapshots/:id', () => {
  it('answers with its size once it is available', async () => {
    const { params } = database
    const id = await takenSnapshot(server.client, params.project_id, params.database_id)
    const snapshot = await succeed(caller(), 'snapshots.get', { ...params, id })
    expect(snapshot).toEqual({
      id,
      database_id: params.database_id,
      status: 'available',
      size_bytes: expect.any(Number),
      failure: null,
      created_at: expect.stringMatching(/\.\d{3}Z$/),
    })
    expect(snapshot.size_bytes).toBeGreaterThan(1e6)
  })

  it('answers the same 404 as for an id that never existed', async () => {
    const { params } = database
    const id = await takenSnapshot(server.client, params.project_id, params.database_id)
    await expectNotFound(server, 'snapshots.get', { ...params, id })
  })
})
