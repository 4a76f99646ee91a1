import { afterAll, beforeAll, expect, it } from 'vitest'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const status = async (method: string, path: string, body?: object | FormData) => {
  const json = body !== undefined && !(body instanceof FormData)
  const headers = { authorization: `Bearer ${server.apiKey}`, ...(json ? { 'content-type': 'application/json' } : {}) }
  const sent = json ? JSON.stringify(body) : body
  return (await fetch(`${server.url}/v1${path}`, { method, headers, ...(sent === undefined ? {} : { body: sent }) }))
    .status
}

const file = () => {
  const form = new FormData()
  form.set('file', new File(['x'], 'x'))
  return form
}

it('a project is not deleted together with a resource that is being created in it', async () => {
  for (let round = 0; round < 8; round++) {
    const { id } = await server.client.projects.create({ body: { name: 'p' } })
    const path = `/projects/${id}`
    const [made, deleted, uploaded] = await Promise.all([
      status('POST', `${path}/databases`, { name: 'd' }),
      status('DELETE', path),
      status('POST', `${path}/storage/upload`, file()),
    ])
    // Either the project is deleted and nothing was created in it, or the creation succeeded and the project remains.
    expect([made, uploaded].map((each) => (each === 404 ? 'refused' : each))).toEqual(
      deleted === 204 ? ['refused', 'refused'] : [expect.anything(), expect.anything()],
    )
    expect([204, 400]).toContain(deleted)
    expect(await status('GET', path)).toBe(deleted === 204 ? 404 : 200)
    if (deleted === 400) expect([made, uploaded]).toContain(201)
  }
})
