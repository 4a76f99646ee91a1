import { afterAll, beforeAll, expect, it } from 'vitest'
import { connect, createdDatabase, query } from '../../harness/databases.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const created = async () => {
  const project = (await server.client.projects.create({ body: { name: 'p' } })).id
  const database = await createdDatabase(server.client, project)
  return { ...database, params: { project_id: project, id: database.id } }
}

it('a password is rotated while its user also changes the role', async () => {
  const { params, connection_string } = await created()
  await using user = await connect(connection_string)
  await user.query("begin; alter role current_user password 'mine'")
  const rotating = server.client.databases.rotatePassword({ params })
  // The session is ended when the rotation has waited for it by then.
  await user.query('commit').catch(() => undefined)
  const rotated = await rotating
  expect(await query(rotated.connection_string, 'select 1')).toEqual([[1]])
})

it('a transaction that keeps the role locked is ended, and does not block requests', async () => {
  const { params, connection_string } = await created()
  await using user = await connect(connection_string)
  await user.query("begin; alter role current_user password 'mine'")
  const ended = new Promise((done) => user.once('end', done))
  const rotated = await server.client.databases.rotatePassword({ params })
  await ended
  expect(await query(rotated.connection_string, 'select 1')).toEqual([[1]])
})
