import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Repository, repository } from '../harness/repository.ts'
import { type OwnServer, ownServer } from '../harness/server.ts'

/*
 * The contract as a client sees it: the fields, types, statuses and headers below are copied from the specification,
 * and from the design where the specification is silent. Nothing here may come from the server's declarations or from
 * the receiver, because a mistake in a declaration would then pass.
 */

let server: OwnServer
let app: Repository
let receiver: Server
let projectId: string
const notifications: { readonly method: string | undefined; readonly headers: IncomingHttpHeaders; body: string }[] = []

beforeAll(async () => {
  server = await ownServer()
  app = await repository({ 'index.html': 'hello' })
  receiver = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { method, headers } = request
    notifications.push({ method, headers, body: Buffer.concat(chunks).toString() })
    response.writeHead(204).end()
  })
  receiver.listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  projectId = (await call('POST', '/projects', { body: { name: 'Contract' } })).body.id
})
afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await app?.[Symbol.asyncDispose]()
  receiver?.closeAllConnections()
  receiver?.close()
})

interface Call {
  /** The value of `Authorization`; null for none. */
  readonly authorization?: string | null
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON, unless it is a form. */
  readonly body?: unknown
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Readonly<Record<string, unknown>> & { readonly id: string }
}

async function call(method: string, path: string, { authorization, headers, body }: Call = {}): Promise<Answer> {
  const sent = authorization === undefined ? `Bearer ${server.apiKey}` : authorization
  const isJson = body !== undefined && !(body instanceof FormData)
  const response = await fetch(server.baseUrl + path, {
    method,
    headers: {
      ...(sent === null ? {} : { authorization: sent }),
      ...(isJson ? { 'content-type': 'application/json' } : {}),
      ...headers,
    },
    ...(body === undefined ? {} : { body: isJson ? JSON.stringify(body) : (body as FormData) }),
  })
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] }
}

const integer = /^\d+$/
const idOf = (prefix: string) => new RegExp(`^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$`)
const anId = (prefix: string) => expect.stringMatching(idOf(prefix))
const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const aTimestamp = expect.stringMatching(timestamp)
const anAddress = expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/)
const aSlug = expect.stringMatching(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/)

/** Every response to a valid key reports the remaining requests, in integers. */
function expectHeaders({ headers }: Answer, { authenticated = true } = {}): void {
  expect(headers.get('content-type')).toMatch(/^application\/json(; charset=utf-8)?$/)
  expect(headers.get('x-request-id')).toMatch(/^[\w\-=]{1,255}$/)
  const limits = ['limit', 'remaining', 'reset'].map((name) => headers.get(`x-ratelimit-${name}`))
  if (!authenticated) {
    expect(limits).toEqual([null, null, null])
    return
  }
  expect(limits).toEqual([
    expect.stringMatching(integer),
    expect.stringMatching(integer),
    expect.stringMatching(integer),
  ])
  const [limit, remaining, reset] = limits.map(Number)
  expect(remaining).toBeLessThanOrEqual(limit ?? 0)
  // Unix seconds, in the next hour.
  expect(reset).toBeGreaterThan(Date.now() / 1000 - 60)
  expect(reset).toBeLessThanOrEqual(Date.now() / 1000 + 3601)
}

/** A creation returns the address of the resource. */
async function expectCreated(answer: Answer, location: string): Promise<void> {
  expect(answer.status).toBe(201)
  expectHeaders(answer)
  expect(answer.headers.get('location')).toBe(location)
  const read = await call('GET', location.replace(/^\/v1/, ''))
  expect([read.status, read.body.id]).toEqual([200, answer.body.id])
}

function expectRead(answer: Answer): void {
  expect(answer.status).toBe(200)
  expectHeaders(answer)
  expect(answer.headers.has('location')).toBe(false)
}

const form = (name: string, content: string) => {
  const body = new FormData()
  body.append('file', new Blob([content]), name)
  return body
}

/** The seven operations, each with a valid body. `project` stands for the id of a project. */
const operations: readonly { method: string; path: string; body?: unknown }[] = [
  { method: 'GET', path: '/projects' },
  { method: 'POST', path: '/projects', body: { name: 'Shop' } },
  { method: 'GET', path: '/projects/:project' },
  { method: 'GET', path: '/projects/:project/deployments' },
  { method: 'POST', path: '/projects/:project/deployments', body: { name: 'a', git_url: 'https://127.0.0.1:1/a' } },
  { method: 'POST', path: '/projects/:project/databases', body: { name: 'a' } },
  { method: 'POST', path: '/projects/:project/storage/upload', body: form('a.txt', 'a') },
]

describe('the seven operations answer exactly the specified fields:', () => {
  it('POST /projects', async () => {
    const given = { name: 'Shop', region: 'eu-1', plan: 'starter' }
    const answer = await call('POST', '/projects', { body: given })
    expect(answer.body).toEqual({ ...given, id: anId('proj'), created_at: aTimestamp })
    await expectCreated(answer, `/v1/projects/${answer.body.id}`)

    const { body } = await call('POST', '/projects', { body: { name: 'Defaults', unknown: 'ignored' } })
    expect(body).toEqual({ id: anId('proj'), name: 'Defaults', region: aSlug, plan: 'free', created_at: aTimestamp })
  })

  it('GET /projects', async () => {
    const answer = await call('GET', '/projects')
    expectRead(answer)
    const projects = answer.body['projects'] as { id: string }[]
    expect(answer.body).toEqual({ projects: expect.any(Array), total: projects.length })
    const item = { id: anId('proj'), name: expect.any(String), region: aSlug, created_at: aTimestamp, status: 'active' }
    expect(projects).toEqual(projects.map(() => item))
    expect(projects).toContainEqual({ ...item, id: projectId, name: 'Contract' })
  })

  it('POST /projects/:project_id/databases', async () => {
    const path = `/projects/${projectId}/databases`
    const answer = await call('POST', path, { body: { name: 'main', type: 'postgresql', plan: 'starter' } })
    expect(answer.body).toEqual({
      id: anId('db'),
      name: 'main',
      type: 'postgresql',
      version: expect.stringMatching(integer),
      connection_string: expect.stringMatching(/^postgresql:\/\/[^:/@]+:[^:/@]+@127\.0\.0\.1:\d+\/[^/]+$/),
      status: 'provisioning',
    })
    await expectCreated(answer, `/v1${path}/${answer.body.id}`)
  })

  it('POST /projects/:project_id/storage/upload', async () => {
    const answer = await call('POST', `/projects/${projectId}/storage/upload`, { body: form('a.txt', 'content') })
    expect(answer.body).toEqual({
      id: anId('file'),
      name: 'a.txt',
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/files\//),
      size: 7,
      uploaded_at: aTimestamp,
    })
    await expectCreated(answer, `/v1/projects/${projectId}/storage/files/${answer.body.id}`)
    expect(await (await fetch(answer.body['url'] as string)).text()).toBe('content')
  })

  it('POST and GET /projects/:project_id/deployments, and the webhook deployment.succeeded', {
    timeout: 300_000,
  }, async () => {
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hooks`
    const hook = await call('POST', '/webhooks', { body: { url, events: ['deployment.succeeded'] } })
    const before = Math.floor(Date.now() / 1000)

    const path = `/projects/${projectId}/deployments`
    const given = { name: 'web', git_url: app.url, branch: 'main', env_vars: { GREETING: 'hello' } }
    const answer = await call('POST', path, { body: given })
    const deployment = { id: anId('dep'), name: 'web', status: 'building', url: anAddress, created_at: aTimestamp }
    expect(answer.body).toEqual(deployment)
    await expectCreated(answer, `/v1${path}/${answer.body.id}`)

    // The list has the same fields with the same values, and `running` once the app answers.
    const list = () => call('GET', path)
    await expect
      .poll(async () => (await list()).body, { timeout: 200_000, interval: 100 })
      .toEqual({ deployments: [{ ...answer.body, status: 'running' }] })
    expectRead(await list())
    expect(await (await fetch(answer.body['url'] as string)).text()).toBe('hello')

    await expect.poll(() => notifications.length).toBe(1)
    const [notification] = notifications
    const { method, headers, body = '' } = notification ?? {}
    expect([method, headers?.['content-type']]).toEqual(['POST', 'application/json'])
    expect(JSON.parse(body)).toEqual({
      event: 'deployment.succeeded',
      timestamp: aTimestamp,
      data: { deployment_id: answer.body.id, project_id: projectId, url: answer.body['url'] },
    })

    // Standard Webhooks: an HMAC over the id, the time of the attempt and the raw bytes, by the bytes of the secret.
    const id = headers?.['webhook-id']
    const at = headers?.['webhook-timestamp']
    expect(id).toMatch(idOf('evt'))
    expect(at).toMatch(integer)
    expect(Number(at)).toBeGreaterThanOrEqual(before)
    expect(Number(at)).toBeLessThanOrEqual(Date.now() / 1000)
    const secret = hook.body['secret'] as string
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{32,}={0,2}$/)
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
    const hmac = createHmac('sha256', key).update(`${id}.${at}.${body}`).digest('base64')
    expect(headers?.['webhook-signature']).toBe(`v1,${hmac}`)
  })

  it('GET /projects/:id, with the count of the resources created above', async () => {
    const answer = await call('GET', `/projects/${projectId}`)
    expectRead(answer)
    expect(answer.body).toEqual({
      id: projectId,
      name: 'Contract',
      region: aSlug,
      plan: 'free',
      resources: { deployments: 1, databases: 1, storage_gb: 7e-9 },
      created_at: aTimestamp,
    })
  })
})

describe('an error has exactly a code, a message and details:', () => {
  const aMessage = expect.stringMatching(/\S/)

  function expectError(answer: Answer, status: number, code: string, details: unknown, { authenticated = true } = {}) {
    expect([answer.status, answer.body]).toEqual([status, { error: { code, message: aMessage, details } }])
    expectHeaders(answer, { authenticated })
  }

  const pathIn = (path: string, project = projectId) => path.replace(':project', project)

  it.each(operations)('$method $path is 401 without a valid key', async ({ method, path, body }) => {
    for (const authorization of [null, 'Bearer nonsense']) {
      const answer = await call(method, pathIn(path), { authorization, body })
      expectError(answer, 401, 'unauthorized', {}, { authenticated: false })
    }
  })

  it.each(operations)('$method $path is 403 with a key that lacks the permission', async ({ method, path, body }) => {
    const answer = await call(method, pathIn(path), { authorization: `Bearer ${await powerlessKey()}`, body })
    expectError(answer, 403, 'forbidden', expect.any(Object))
  })

  it.each(operations.filter(({ path }) => path.includes(':project')))(
    '$method $path is 404 for a project that does not exist, with an id of any form',
    async ({ method, path, body }) => {
      for (const project of ['proj_01h2xcejqtf2nbrexx3vqjhp41', 'nonsense']) {
        expectError(await call(method, pathIn(path, project), { body }), 404, 'not_found', {})
      }
    },
  )

  it.each([
    ['/projects', {}],
    ['/projects', { name: 7 }],
    ['/projects/:project/deployments', { git_url: 'https://127.0.0.1:1/a' }],
    ['/projects/:project/databases', {}],
  ])('POST %s with %j is 400 and names the field', async (path, body) => {
    const details = { field: 'name', errors: [{ field: 'name', message: aMessage }] }
    expectError(await call('POST', pathIn(path), { body }), 400, 'invalid_request', details)
  })

  it('an upload without a file is 400', async () => {
    const body = new FormData()
    body.append('name', 'a.txt')
    const answer = await call('POST', `/projects/${projectId}/storage/upload`, { body })
    expectError(answer, 400, 'invalid_request', expect.any(Object))
  })

  it('a path or method that does not exist is 404', async () => {
    expectError(await call('GET', '/nothing'), 404, 'not_found', {})
    expectError(await call('PUT', '/projects', { body: { name: 'a' } }), 404, 'not_found', {})
  })

  it('429 says when the limit ends', async () => {
    const { id: accountId } = await server.accounts.create({ name: 'slow', plan: 'enterprise', requestsPerHour: 1 })
    const authorization = `Bearer ${await server.key({ accountId })}`
    const first = await call('GET', '/projects', { authorization })
    expect(first.body).toEqual({ projects: [], total: 0 })
    const answer = await call('GET', '/projects', { authorization })
    expectError(answer, 429, 'rate_limit_exceeded', expect.any(Object))
    expect(answer.headers.get('retry-after')).toMatch(integer)
    const state = (headers: Headers) =>
      ['limit', 'remaining', 'reset'].map((name) => headers.get(`x-ratelimit-${name}`))
    expect(state(answer.headers)).toEqual(['1', '0', state(first.headers)[2]])
  })

  it.each([
    ['free', '1000'],
    ['pro', '10000'],
  ] as const)('an account of the tier %s has %s requests an hour', async (plan, limit) => {
    const { id: accountId } = await server.accounts.create({ name: plan, plan })
    const answer = await call('GET', '/projects', { authorization: `Bearer ${await server.key({ accountId })}` })
    expect(answer.headers.get('x-ratelimit-limit')).toBe(limit)
  })

  it('500 reveals no internals', async () => {
    const { database } = server
    await database.query("alter table projects add constraint breaks check (name <> 'this breaks') not valid")
    try {
      const answer = await call('POST', '/projects', { body: { name: 'this breaks' } })
      expectError(answer, 500, 'server_error', {})
      expect(JSON.stringify(answer.body)).not.toMatch(/constraint|violat|postgres|select|insert/i)
    } finally {
      await database.query('alter table projects drop constraint breaks')
    }
  })

  /** A key that may do none of the seven operations. */
  async function powerlessKey(): Promise<string> {
    const accountId = await server.accounts.ensureOperator()
    const scopes = ['webhooks:read'] as const
    return (await server.keys.create({ accountId, name: 'powerless', scopes, projectIds: null })).key
  }
})

it("a client's request id is returned, and an invalid one is replaced", async () => {
  const idFor = async (given: string) => {
    const { headers } = await call('GET', '/projects', { headers: { 'x-request-id': given } })
    return headers.get('x-request-id')
  }
  expect(await idFor('my-request_1=')).toBe('my-request_1=')
  expect(await idFor('with spaces')).toMatch(/^[\w\-=]{1,255}$/)
})
