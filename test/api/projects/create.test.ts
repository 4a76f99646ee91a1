import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server[Symbol.asyncDispose]())

const post = (body: unknown, key = server.apiKey) =>
  fetch(`${server.baseUrl}/projects`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

describe('POST /projects', () => {
  it('answers 201 with exactly the specified fields and the defaults', async () => {
    const response = await post({ name: ' My project ', extra: true })
    expect(response.status).toBe(201)
    const body = (await response.json()) as Record<string, unknown>
    expect(Object.keys(body).sort()).toEqual(['created_at', 'id', 'name', 'plan', 'region'])
    expect(body).toMatchObject({ name: 'My project', region: 'local', plan: 'free' })
    expect(body['id']).toMatch(/^proj_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
    expect(body['created_at']).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(response.headers.get('location')).toBe(`/v1/projects/${body['id']}`)
  })

  it('names the missing name as the specification says', async () => {
    const response = await post({ region: 'eu-west-1' })
    expect(response.status).toBe(400)
    const { error } = (await response.json()) as { error: Record<string, unknown> }
    expect(error).toMatchObject({ code: 'invalid_request', details: { field: 'name' } })
  })

  it.each([
    ['empty after trimming', { name: '  ' }, 'name'],
    ['a control character', { name: 'a\u0000b' }, 'name'],
    ['a lone surrogate', { name: 'a\ud800' }, 'name'],
    ['more than 100 characters', { name: 'x'.repeat(101) }, 'name'],
    ['a number', { name: 7 }, 'name'],
    ['a region that is not a slug', { name: 'a', region: 'EU West' }, 'region'],
    ['an unknown plan', { name: 'a', plan: 'gold' }, 'plan'],
  ])('refuses %s', async (_, body, field) => {
    const response = await post(body)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', details: { field } } })
  })

  it('names the missing name of a request without any body', async () => {
    const response = await fetch(`${server.baseUrl}/projects`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.apiKey}` },
    })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { details: { field: 'name' } } })
  })

  it('reports all problems at once', async () => {
    const response = await post({ region: 'EU' })
    const { error } = (await response.json()) as { error: { details: { errors: { field: string }[] } } }
    expect(error.details.errors.map(({ field }) => field)).toEqual(['name', 'region'])
  })

  it('counts characters, not code units, in a name', async () => {
    expect((await post({ name: '漢'.repeat(100) })).status).toBe(201)
    expect((await post({ name: '😀'.repeat(100) })).status).toBe(201)
  })

  it('refuses a plan that the tier of the account does not allow', async () => {
    const { id } = await server.accounts.create({ name: 'small', plan: 'free' })
    const response = await post({ name: 'a', plan: 'enterprise' }, await server.key({ accountId: id }))
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({
      error: { details: { field: 'plan' }, message: 'plan: must be one of: free, starter' },
    })
  })

  it.each([
    ['malformed JSON', '{"name":'],
    ['a JSON string', '"name"'],
    ['a JSON array', '[]'],
    ['a body over 1 MiB', JSON.stringify({ name: 'a', pad: 'x'.repeat(1024 * 1024) })],
  ])('answers %s with 400', async (_, body) => {
    const response = await post(body)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', details: {} } })
  })

  it('answers another media type with 400', async () => {
    const response = await fetch(`${server.baseUrl}/projects`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'text/plain' },
      body: '{"name":"a"}',
    })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { details: { field: 'content-type' } } })
  })
})
