import { afterAll, beforeAll, expect, it } from 'vitest'
import { createdDatabase, query, takenSnapshot, untilDatabase } from '../../harness/databases.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

it('a database that is deleted during the restore of a snapshot can be restored, even without the snapshot', async () => {
  const { client } = server
  const project = (await client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
  const { id, connection_string } = await createdDatabase(client, project)
  await query(connection_string, 'create table notes as select 1 as n')
  const snapshot = await takenSnapshot(client, project, id)
  const params = { project_id: project, id }
  const ofSnapshot = { project_id: project, database_id: id, id: snapshot }
  await client.snapshots.restore({ params: ofSnapshot })
  await client.databases.delete({ params })
  await client.snapshots.delete({ params: ofSnapshot })
  // Rejected logins show that the deletion's job has archived it.
  await expect
    .poll(() => query(connection_string, 'select').then(String, (error: { code: string }) => error.code), {
      timeout: 30_000,
    })
    .toMatch(/^(28000|3D000)$/)
  await client.databases.restore({ params })
  await untilDatabase(client, project, id)
  expect(await query(connection_string, 'select n from notes')).toEqual([[1]])
})
