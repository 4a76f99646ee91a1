import { afterAll, beforeAll, expect, it } from 'vitest'
import { connect, createdDatabase, query } from '../harness/databases.ts'
import { type TestServer, testServer } from '../harness/server.ts'

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

it('a password is rotated while its user changes the role too', async () => {
  const { params, connection_string } = await created()
  await using user = await connect(connection_string)
  await user.query("begin; alter role current_user password 'mine'")
  // Not sent by the client, which would retry.
  const rotating = fetch(`${server.url}/v1/projects/${params.project_id}/databases/${params.id}/rotate-password`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}` },
  })
  // Waits until the rotation waits for this transaction.
  await expect
    .poll(async () => (await user.query('select from pg_locks where not granted')).rowCount, {
      timeout: 20_000,
      interval: 5,
    })
    .toBeGreaterThan(0)
  await user.query('commit')
  const answer = await rotating
  expect(answer.status).toBe(200)
  const rotated = (await answer.json()) as { connection_string: string }
  expect(await query(rotated.connection_string, 'select 1')).toEqual([[1]])
})

it('a transaction that keeps the role locked is reported, and does not keep requests waiting', async () => {
  const { params, connection_string } = await created()
  await using user = await connect(connection_string)
  await user.query("begin; alter role current_user password 'mine'")
  await expect(server.client.databases.rotatePassword({ params })).rejects.toMatchObject({
    code: 'invalid_request',
    message: expect.stringContaining('open transaction'),
  })
  await user.query('rollback')
  expect(await query(connection_string, 'select 1')).toEqual([[1]])
})
