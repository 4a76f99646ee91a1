import { afterAll, beforeAll, expect, it } from 'vitest'
import { operations } from '../../../server/src/contract/operations.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

it('/openapi.json requires a body exactly where the API refuses a request without one', async () => {
  const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { requestBody?: { required: boolean } }>>
  }
  const required = operations
    .filter(({ body }) => body !== undefined)
    .map(({ name, method, path }) => {
      const entry = document.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]
      return [name, entry?.requestBody?.required]
    })
  expect(Object.fromEntries(required)).toMatchObject({
    'projects.create': true,
    'projects.update': false,
    'webhooks.rotateSecret': false,
    'webhooks.recover': true,
  })
  const { id } = await server.client.webhooks.create({ body: { url: 'http://127.0.0.1:1/' } })
  const authorization = `Bearer ${server.apiKey}`
  const post = (path: string) => fetch(`${server.url}${path}`, { method: 'POST', headers: { authorization } })
  expect((await post(`/v1/webhooks/${id}/rotate-secret`)).status).toBe(200)
  expect((await post(`/v1/webhooks/${id}/recover`)).status).toBe(400)
})
