import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound, succeed, withKey } from '../../harness/conformance.ts'
import { newDatabase, query, takenSnapshot, untilDatabase } from '../../harness/databases.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let database: Awaited<ReturnType<typeof newDatabase>>
beforeAll(async () => {
  server = await testServer()
  database = await newDatabase(server.client)
})
afterAll(() => server[Symbol.asyncDispose]())

const caller = () => withKey(server, server.apiKey)

describe('POST /projects/:project_id/databases/:database_id/snapshots/:id/restore', () => {
  it('restores the content: later writes are gone, the connection string stays', async () => {
    const { connection_string } = database
    const { project_id: project, database_id: id } = database.params
    await query(connection_string, 'create table notes as select 1 as n')
    const snapshot = await takenSnapshot(server.client, project, id)
    await query(connection_string, 'update notes set n = 2; create table later ()')
    const params = { ...database.params, id: snapshot }
    expect(await succeed(caller(), 'snapshots.restore', params)).toMatchObject({ id, status: 'provisioning' })
    await untilDatabase(server.client, project, id)
    expect(await query(connection_string, 'select n from notes')).toEqual([[1]])
    await expect(query(connection_string, 'select from later')).rejects.toMatchObject({ code: '42P01' })
    // A snapshot can be restored any number of times.
    await query(connection_string, 'update notes set n = 3')
    await server.client.snapshots.restore({ params })
    await untilDatabase(server.client, project, id)
    expect(await query(connection_string, 'select n from notes')).toEqual([[1]])
  })

  it('refuses a deleted database', async () => {
    const { params } = await newDatabase(server.client)
    const id = await takenSnapshot(server.client, params.project_id, params.database_id)
    await server.client.databases.delete({ params: { project_id: params.project_id, id: params.database_id } })
    await expect(server.client.snapshots.restore({ params: { ...params, id } })).rejects.toMatchObject({
      code: 'invalid_request',
    })
  })

  it('answers the same 404 as for an id that never existed, and the content stays', async () => {
    const { connection_string, params } = database
    const id = await takenSnapshot(server.client, params.project_id, params.database_id)
    await query(connection_string, 'create table later as select 1 as n')
    await expectNotFound(server, 'snapshots.restore', { ...params, id })
    expect(await query(connection_string, 'select n from later')).toEqual([[1]])
  })
})
