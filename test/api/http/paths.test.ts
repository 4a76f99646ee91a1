import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const ask = (method: string, path: string, body?: object, headers: Record<string, string> = {}) =>
  fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })

describe('a path', () => {
  it.each(['/v1/projects/', '/v1/Projects', '/V1/projects', '/v1//projects', '/v1/projects//'])(
    'that almost matches the API is not part of it: %s',
    async (path) => {
      for (const [method, body] of [['GET'], ['POST', { name: 'Shop' }]] as const) {
        const answer = await ask(method, path, body)
        expect(answer.status).toBe(404)
        expect(await answer.json()).toMatchObject({ error: { code: 'not_found' } })
      }
    },
  )

  it('in the Location of a creation leads to the created resource', async () => {
    const created = await ask('POST', '/v1/projects?from=somewhere', { name: 'Shop' })
    const { id } = (await created.json()) as { id: string }
    const location = created.headers.get('location') ?? ''
    expect(location).toBe(`/v1/projects/${id}`)
    expect((await ask('GET', location)).status).toBe(200)
  })

  it('cannot be spelled differently to bypass an idempotency key', async () => {
    const key = { 'idempotency-key': 'paths-1' }
    const first = await ask('POST', '/v1/projects', { name: 'Once' }, key)
    const second = await ask('POST', '/v1/projects?again', { name: 'Once' }, key)
    expect(await second.json()).toEqual(await first.json())
    expect(second.headers.get('idempotent-replayed')).toBe('true')
  })
})
