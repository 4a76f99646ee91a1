import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { generateKey, isWellFormedKey } from '../../server/src/accounts/key-format.ts'
import { presets } from '../../server/src/accounts/scopes.ts'
import { operations } from '../../server/src/contract/operations.ts'
import { type TestServer, testServer } from '../harness/server.ts'

let server: TestServer
let projectId: string
beforeAll(async () => {
  server = await testServer()
  projectId = (await server.client.projects.create({ body: { name: 'p' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

const missing = { dep: 'dep_01h455vb4pex5vsknk084sn02q', wh: 'wh_01h455vb4pex5vsknk084sn02q' }

const ask = async (operation: (typeof operations)[number], authorization: string | undefined, project = projectId) => {
  const id = operation.name.startsWith('webhooks') ? missing.wh : missing.dep
  const path = operation.path.replace(':project_id', project).replace(':id', id)
  const response = await fetch(server.baseUrl + path, {
    method: operation.method,
    headers: authorization === undefined ? {} : { authorization },
  })
  const text = await response.text()
  return { status: response.status, code: text === '' ? undefined : JSON.parse(text).error?.code }
}

describe.each(operations.map((operation) => [operation.name, operation] as const))('%s', (_, operation) => {
  it.each([
    ['no header', undefined],
    ['another scheme', 'Basic dXNlcjpwYXNz'],
    ['a key of the wrong form', 'Bearer secret'],
    ['a key with a wrong checksum', `Bearer fl_${'a'.repeat(36)}`],
    ['a key that was never made', `Bearer ${generateKey()}`],
  ])('answers 401 to %s', async (_, authorization) => {
    expect(await ask(operation, authorization)).toEqual({ status: 401, code: 'unauthorized' })
  })

  it('answers 401 to a revoked and to an expired key', async () => {
    const revoked = await server.key({})
    const expired = await server.key({})
    const keys = await server.keys.list()
    const [secondLast, last] = keys.slice(-2)
    await server.keys.revoke(secondLast?.id ?? '')
    await server.database.query("update api_keys set expires_at = now() - interval '1 s' where id = $1", [last?.id])
    expect(await ask(operation, `Bearer ${revoked}`)).toEqual({ status: 401, code: 'unauthorized' })
    expect(await ask(operation, `Bearer ${expired}`)).toEqual({ status: 401, code: 'unauthorized' })
  })

  it('answers 403 to a key without the scope, before it looks at body or existence', async () => {
    const preset = operation.access.endsWith(':write') ? 'read' : 'deploy'
    const answer = await ask(operation, `Bearer ${await server.key({ preset })}`)
    const scopes: readonly string[] = presets[preset]
    if (![operation.access, operation.access.replace(':read', ':write')].some((scope) => scopes.includes(scope))) {
      expect(answer).toEqual({ status: 403, code: 'forbidden' })
    } else {
      expect(answer.status).not.toBe(403)
    }
  })

  it("answers 404 to another account's key where the path names a project", async () => {
    const account = await server.accounts.create({ name: 'other', plan: 'pro' })
    const answer = await ask(operation, `Bearer ${await server.key({ accountId: account.id })}`)
    if (operation.path.includes(':project_id') && operation.body === undefined) {
      expect(answer).toEqual({ status: 404, code: 'not_found' })
    } else {
      expect(answer.status).not.toBe(500)
    }
  })

  it('answers 403 to a key that is bound to another project', async () => {
    const other = await server.client.projects.create({ body: { name: 'other' } })
    const answer = await ask(operation, `Bearer ${await server.key({ projectIds: [other.id] })}`)
    if (operation.path.includes(':project_id')) expect(answer).toEqual({ status: 403, code: 'forbidden' })
    else expect(answer.status).not.toBe(500)
  })
})

describe('an API key', () => {
  it('has the form fl_, 30 characters and their checksum', () => {
    for (let i = 0; i < 200; i++) {
      const key = generateKey()
      expect(key).toMatch(/^fl_[0-9A-Za-z]{36}$/)
      expect(isWellFormedKey(key)).toBe(true)
      const at = 3 + (i % 30)
      const other = key[at] === 'a' ? 'b' : 'a'
      expect(isWellFormedKey(key.slice(0, at) + other + key.slice(at + 1))).toBe(false)
    }
  })

  it('is not stored', async () => {
    const key = await server.key({})
    const rows = await server.database.query<{ row: string }>('select api_keys::text as row from api_keys')
    expect(rows.some(({ row }) => row.includes(key))).toBe(false)
  })

  it('has its last use recorded', async () => {
    const key = await server.key({})
    const id = (await server.keys.list()).at(-1)?.id
    expect((await server.keys.list()).at(-1)?.lastUsedAt).toBeNull()
    await server.clientFor(key).projects.list()
    expect((await server.keys.list()).find((each) => each.id === id)?.lastUsedAt).toBeInstanceOf(Date)
  })

  it('is accepted whatever the case of the scheme', async () => {
    const response = await fetch(`${server.baseUrl}/projects`, {
      headers: { authorization: `bearer ${server.apiKey}` },
    })
    expect(response.status).toBe(200)
  })
})

describe('what is not an operation', () => {
  it.each([
    ['an unknown path', 'GET', '/nothing'],
    ['a wrong method', 'PUT', '/projects'],
    ['a path below an operation', 'GET', '/projects/a/b/c/d'],
  ])('answers %s with 404 and the error body', async (_, method, path) => {
    const response = await fetch(server.baseUrl + path, {
      method,
      headers: { authorization: `Bearer ${server.apiKey}` },
    })
    expect(response.status).toBe(404)
    expect(await response.json()).toMatchObject({ error: { code: 'not_found', details: {} } })
  })

  it('answers 401 before 404 under /v1', async () => {
    expect((await fetch(`${server.baseUrl}/nothing`)).status).toBe(401)
  })

  it('answers 404 with the error body outside /v1', async () => {
    const response = await fetch(`${server.url}/nothing`)
    expect(response.status).toBe(404)
    expect(await response.json()).toMatchObject({ error: { code: 'not_found' } })
  })

  it('answers a request that is not HTTP with the error body', async () => {
    const { port, hostname } = new URL(server.url)
    const text = await new Promise<string>((done, fail) => {
      let received = ''
      const socket = connect(Number(port), hostname, () => socket.write('nonsense\r\n\r\n'))
      socket.on('data', (chunk) => {
        received += chunk
      })
      socket.on('close', () => done(received))
      socket.on('error', fail)
    })
    expect(text).toMatch(/^HTTP\/1\.1 400 /)
    expect(JSON.parse(text.split('\r\n\r\n')[1] ?? '')).toMatchObject({ error: { code: 'invalid_request' } })
  })
})

describe('a request id', () => {
  it('is taken from the caller when well-formed, and made otherwise', async () => {
    const send = async (id: string) => {
      return (await fetch(`${server.url}/healthz`, { headers: { 'x-request-id': id } })).headers.get('x-request-id')
    }
    expect(await send('abc-123=_')).toBe('abc-123=_')
    expect(await send('not well formed')).toMatch(/^[0-9a-f-]{36}$/)
  })
})

describe('what the HTTP parser answers by itself', () => {
  const exchange = async (request: string): Promise<string> => {
    const { port, hostname } = new URL(server.url)
    return new Promise((done, fail) => {
      let received = ''
      const socket = connect(Number(port), hostname, () => socket.write(request))
      socket.on('data', (chunk) => {
        received += chunk
      })
      socket.on('close', () => done(received))
      socket.on('error', fail)
    })
  }

  it.each([
    ['no Host', 'GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n', 404],
    ['an unknown expectation', 'GET / HTTP/1.1\r\nHost: a\r\nExpect: bogus\r\nConnection: close\r\n\r\n', 400],
    ['CONNECT', 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n', 400],
    ['headers that are too large', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 400],
  ])('answers %s with the error body', async (_, request, status) => {
    const text = await exchange(request)
    expect(text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(text).toMatch(/\{"error":\{"code":"[a-z_]+","message":"[^"]+","details":\{.*\}\}\}/)
  })

  it('gives a valid request its answer, whatever follows on the connection', async () => {
    const valid = `GET /v1/projects HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${server.apiKey}\r\n\r\n`
    const text = await exchange(`${valid}nonsense\r\n\r\n`)
    expect(text).toMatch(/^HTTP\/1\.1 200 /)
    expect(text).toContain('"projects":[')
  })
})
