import { afterAll, beforeAll, expect, it } from 'vitest'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

it('a key that is bound to projects may not create another key, and is refused before its body is read', async () => {
  const { id } = await server.client.projects.create({ body: { name: 'p' } })
  const key = await server.key({ projectIds: [id] })
  const create = async (body: string) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    return (await fetch(`${server.url}/v1/projects`, { method: 'POST', headers, body })).status
  }
  expect(await create('{"name":"another"}')).toBe(403)
  expect(await create('{}')).toBe(403)
  expect(await create('{"name":')).toBe(403)
})
