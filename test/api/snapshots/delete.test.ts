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

describe('DELETE /projects/:project_id/databases/:database_id/snapshots/:id', () => {
  it('removes it for good', async () => {
    const { params } = database
    const id = await takenSnapshot(server.client, params.project_id, params.database_id)
    await succeed(caller(), 'snapshots.delete', { ...params, id })
    expect((await server.client.snapshots.list({ params })).snapshots).toEqual([])
    for (const ask of [server.client.snapshots.get, server.client.snapshots.restore]) {
      await expect(ask({ params: { ...params, id } })).rejects.toMatchObject({ code: 'not_found' })
    }
  })

  it('answers the same 404 as for an id that never existed, and the snapshot stays', async () => {
    const { params } = database
    const id = await takenSnapshot(server.client, params.project_id, params.database_id)
    await expectNotFound(server, 'snapshots.delete', { ...params, id })
    expect((await server.client.snapshots.get({ params: { ...params, id } })).status).toBe('available')
  })
})
