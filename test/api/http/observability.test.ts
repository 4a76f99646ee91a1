import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type OwnServer, ownServer } from '../../harness/server.ts'

const token = 'metrics-token-0123456789'
let server: OwnServer
beforeAll(async () => {
  // This machine acts as a proxy that terminates TLS.
  server = await ownServer({ FAIRLEAD_METRICS_TOKEN: token, FAIRLEAD_TRUSTED_PROXIES: '127.0.0.1' })
})
afterAll(() => server[Symbol.asyncDispose]())

const get = (path: string, headers: Record<string, string> = {}) => fetch(server.url + path, { headers })
const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

describe('every response', () => {
  it.each(['/healthz', '/readyz', '/v1/projects', '/v1/nothing', '/nothing', '/metrics', '/openapi.json', '/docs'])(
    'of %s carries a request id and the security headers',
    async (path) => {
      const { headers } = await get(path, bearer(server.apiKey))
      expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('referrer-policy')).toBe('no-referrer')
      expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'.*; frame-ancestors 'none'$/)
      expect(headers.get('cache-control')).toMatch(/^no-(store|cache)$/)
      expect(headers.has('x-powered-by')).toBe(false)
      expect(headers.has('strict-transport-security')).toBe(false)
    },
  )

  it('of the API is never cached', async () => {
    expect((await get('/v1/projects', bearer(server.apiKey))).headers.get('cache-control')).toBe('no-store')
  })

  it('to a request over HTTPS through a trusted proxy requires HTTPS from then on', async () => {
    const { headers } = await get('/healthz', { 'x-forwarded-proto': 'https' })
    expect(headers.get('strict-transport-security')).toBe('max-age=31536000')
  })

  it('carries the client’s request id when it is well-formed, and a new id otherwise', async () => {
    const send = async (id: string) => (await get('/healthz', { 'x-request-id': id })).headers.get('x-request-id')
    expect(await send('abc-123=_')).toBe('abc-123=_')
    expect(await send('not well formed')).toMatch(/^[0-9a-f-]{36}$/)
    expect(await send('x'.repeat(256))).toMatch(/^[0-9a-f-]{36}$/)
  })
})

describe('the log', () => {
  const lineOf = async (id: string) => {
    const lines = () => server.log.filter((line) => line['request_id'] === id && line['msg'] === 'request')
    await expect.poll(lines).toHaveLength(1)
    return lines()[0] ?? {}
  }

  it('has one line for each request, with operation, actor, address, status and duration', async () => {
    await get('/v1/projects?limit=5', { ...bearer(server.apiKey), 'x-request-id': 'log-1' })
    const line = await lineOf('log-1')
    expect(line).toMatchObject({ operation: 'projects.list', method: 'GET', path: '/v1/projects', status: 200 })
    expect(line['actor']).toMatch(/^key_/)
    expect(line['address']).toMatch(/127\.0\.0\.1$/)
    expect(line['ms']).toEqual(expect.any(Number))
  })

  it('has neither queries nor paths outside the API, nor keys', async () => {
    await get('/files/file_x/secret-token?signature=secret-signature', {
      ...bearer('secret-key'),
      'x-request-id': 'log-2',
    })
    await get('/v1/projects?cursor=secret-cursor', { ...bearer('secret-key'), 'x-request-id': 'log-3' })
    expect(await lineOf('log-2')).toMatchObject({ path: '/files', status: 404 })
    expect(await lineOf('log-3')).toMatchObject({ path: '/v1/projects', status: 401 })
    expect(JSON.stringify(server.log)).not.toContain('secret-')
  })

  it('names the request in the lines of its job', async () => {
    const project = await server.client.projects.create({ body: { name: 'p' } })
    await fetch(`${server.baseUrl}/projects/${project.id}/deployments`, {
      method: 'POST',
      headers: { ...bearer(server.apiKey), 'content-type': 'application/json', 'x-request-id': 'job-1' },
      body: JSON.stringify({ name: 'web', git_url: 'https://127.0.0.1:1/a.git' }),
    })
    await expect
      .poll(() => server.log.filter((line) => line['request_id'] === 'job-1' && line['task'] === 'deployments.deploy'))
      .not.toHaveLength(0)
  })
})

describe('/metrics', () => {
  it('answers 401 without the token', async () => {
    for (const headers of [{}, bearer('wrong'), bearer(server.apiKey), { authorization: token }]) {
      const response = await get('/metrics', headers)
      expect(response.status).toBe(401)
      expect(await response.json()).toMatchObject({ error: { code: 'unauthorized' } })
    }
    const post = await fetch(`${server.url}/metrics`, { method: 'POST', headers: bearer(token) })
    expect(post.status).toBe(404)
  })

  it('answers 404 when no token is configured', async () => {
    await using closed = await ownServer()
    for (const headers of [{}, bearer(token), bearer('')]) {
      const response = await fetch(`${closed.url}/metrics`, { headers })
      expect(response.status).toBe(404)
      expect(await response.json()).toMatchObject({ error: { code: 'not_found' } })
    }
  })

  it('shows the durations of operations by status, the jobs, the deployments and the process', async () => {
    await server.client.projects.list()
    await get('/v1/projects')
    await expect.poll(async () => (await get('/metrics', bearer(token))).text()).toMatch(/fairlead_deployments\{/)
    const response = await get('/metrics', bearer(token))
    expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
    const text = await response.text()
    expect(text).toMatch(
      /^fairlead_http_request_seconds_bucket\{le="0\.1",operation="projects\.list",status="200"\} \d+$/m,
    )
    expect(text).toMatch(/^fairlead_http_request_seconds_count\{operation="none",status="401"\} \d+$/m)
    for (const state of ['waiting', 'running', 'failed']) {
      expect(text).toMatch(new RegExp(`^fairlead_jobs\\{state="${state}"\\} \\d+$`, 'm'))
    }
    expect(text).toMatch(/^process_resident_memory_bytes \d+$/m)
    expect(text).toMatch(/^nodejs_eventloop_lag_seconds /m)
  })
})
