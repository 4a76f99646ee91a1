import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ApiError, type Client, createClient } from '@fairlead/server/client'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { operations } from '../../server/src/contract/operations.ts'
import { paramKinds } from '../harness/requests.ts'
import { type TestServer, testServer } from '../harness/server.ts'

interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}
type Step = (response: ServerResponse, seen: Seen) => void

/** The responses of the scripted server, one per request; the last one is repeated. */
let steps: Step[] = []
let seen: Seen[] = []
let client: Client
let baseUrl: string
const hostile = createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray()).toString()
  const { method = '', url = '', headers } = request
  seen.push({ method, url, headers, body })
  const step = steps.length > 1 ? steps.shift() : steps[0]
  step?.(response, { method, url, headers, body })
})
const other: Seen[] = []
const otherHost = createServer((request, response) => {
  other.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body: '' })
  response.end('{}')
})
const listen = async (server: typeof hostile): Promise<string> => {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

let otherUrl: string
beforeAll(async () => {
  baseUrl = `${await listen(hostile)}/v1`
  otherUrl = await listen(otherHost)
})
beforeEach(() => {
  seen = []
  steps = []
  client = createClient({ baseUrl, apiKey: 'fl_secret' })
})
afterAll(() => {
  for (const server of [hostile, otherHost]) {
    server.closeAllConnections()
    server.close()
  }
})

const answer =
  (status: number, body: unknown, headers: Record<string, string> = {}): Step =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', 'x-request-id': 'r-1', ...headers })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  }
const failure = (status: number, code: string, headers: Record<string, string> = {}) =>
  answer(status, { error: { code, message: 'no', details: { field: 'name' } } }, headers)
const list = { projects: [], total: 0 }
const cut: Step = (response) => void response.socket?.destroy()
const cutMidway: Step = (response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
  response.write('{"projects"', () => response.socket?.destroy())
}
const now = { 'retry-after': '0' }

describe('the client retries a request', () => {
  it.each([
    ['429', failure(429, 'rate_limit_exceeded', now)],
    ['500', failure(500, 'server_error', now)],
    ["502 with a proxy's page", answer(502, '<html>', now)],
    ['503 without a body', answer(503, '', now)],
  ])('answered with %s', async (_, step) => {
    steps = [step, answer(200, list)]
    expect(await client.projects.list()).toEqual(list)
    expect(seen).toHaveLength(2)
  })

  it.each([
    ['with a broken connection', cut],
    ['with a truncated response', cutMidway],
  ])('%s', async (_, step) => {
    steps = [step, step, answer(200, list)]
    expect(await client.projects.list()).toEqual(list)
    expect(seen).toHaveLength(3)
  })

  it('with the same idempotency key, and another key per call', async () => {
    const made = { id: 'proj_1', name: 'a', region: 'r', plan: 'free', created_at: '2026-01-31T12:00:00.000Z' }
    steps = [cut, cutMidway, failure(500, 'server_error', now), answer(201, made)]
    expect(await client.projects.create({ body: { name: 'a' } })).toEqual(made)
    const keys = new Set(seen.map(({ headers }) => headers['idempotency-key']))
    expect(keys.size).toBe(1)
    expect(seen.map(({ body }) => body)).toEqual(Array.from({ length: 4 }, () => '{"name":"a"}'))
    await client.projects.create({ body: { name: 'a' } })
    await client.projects.create({ body: { name: 'a' }, idempotencyKey: 'mine' })
    expect(keys).not.toContain(seen.at(-2)?.headers['idempotency-key'])
    expect(seen.at(-1)?.headers['idempotency-key']).toBe('mine')
  })

  it('three times, and then rejects with the last response', async () => {
    steps = [failure(500, 'server_error', now)]
    await expect(client.projects.list()).rejects.toMatchObject({ code: 'server_error', requestId: 'r-1' })
    expect(seen).toHaveLength(4)
  })

  it('as often as configured', async () => {
    steps = [cut]
    await expect(createClient({ baseUrl, retries: 0 }).projects.list()).rejects.toThrow(TypeError)
    expect(seen).toHaveLength(1)
  })

  it('not after a permanent refusal', async () => {
    steps = [failure(400, 'invalid_request')]
    const refused = client.projects.create({ body: { name: '' } })
    await expect(refused).rejects.toBeInstanceOf(ApiError)
    await expect(refused).rejects.toMatchObject({ code: 'invalid_request', status: 400, details: { field: 'name' } })
    expect(seen).toHaveLength(1)
  })

  it('to delete, and treats 404 as success when the first response was lost', async () => {
    const gone = failure(404, 'not_found')
    steps = [cut, gone]
    expect(await client.webhooks.delete({ params: { id: 'wh_1' } })).toBeUndefined()
    steps = [gone]
    await expect(client.webhooks.delete({ params: { id: 'wh_1' } })).rejects.toMatchObject({ code: 'not_found' })
    steps = [failure(429, 'rate_limit_exceeded', now), gone]
    await expect(client.webhooks.delete({ params: { id: 'wh_1' } })).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('the client waits', () => {
  const timeOf = async (task: () => Promise<unknown>) => {
    const start = performance.now()
    await task()
    return performance.now() - start
  }

  it('as many seconds as Retry-After says', async () => {
    steps = [failure(429, 'rate_limit_exceeded', { 'retry-after': '1' }), answer(200, list)]
    expect(await timeOf(() => client.projects.list())).toBeGreaterThanOrEqual(999)
  })

  it('until the date in Retry-After', async () => {
    const date = new Date(Date.now() + 2000).toUTCString()
    steps = [failure(503, 'server_error', { 'retry-after': date }), answer(200, list)]
    await client.projects.list()
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(date))
    steps = [failure(503, 'server_error', { 'retry-after': new Date(0).toUTCString() }), answer(200, list)]
    expect(await client.projects.list()).toEqual(list)
  })

  it('not at all for more than a minute', async () => {
    steps = [failure(429, 'rate_limit_exceeded', { 'retry-after': '61' })]
    await expect(client.projects.list()).rejects.toMatchObject({ code: 'rate_limit_exceeded' })
    expect(seen).toHaveLength(1)
  })

  it('no longer when its signal aborts', async () => {
    const given = new AbortController()
    steps = [
      (response, request) => {
        failure(429, 'rate_limit_exceeded', { 'retry-after': '59' })(response, request)
        response.once('close', () => given.abort(new Error('enough')))
      },
    ]
    await expect(client.projects.list({ signal: given.signal })).rejects.toThrow('enough')
    expect(seen).toHaveLength(1)
  })

  it('no longer for an endless response, when its signal aborts', async () => {
    const given = new AbortController()
    steps = [
      (response) => {
        response.writeHead(200)
        response.write('{', () => given.abort(new Error('enough')))
      },
    ]
    await expect(client.projects.list({ signal: given.signal })).rejects.toThrow('enough')
    await expect(client.projects.list({ signal: AbortSignal.abort(new Error('before')) })).rejects.toThrow('before')
    expect(seen).toHaveLength(1)
  })

  it('a random time without Retry-After', async () => {
    steps = [failure(500, 'server_error'), failure(500, 'server_error'), answer(200, list)]
    // The delays are random, at most 0.5 s and 1 s, so the test checks only the number of requests.
    await client.projects.list()
    expect(seen).toHaveLength(3)
  })
})

describe('the client does not trust', () => {
  it.each([
    ["a proxy's page", answer(404, '<html>not here</html>')],
    ['an error of another kind', answer(400, { error: 'bad' })],
    ['an unknown code', failure(400, 'teapot')],
    ['a code of the prototype', failure(400, 'toString')],
    ['a success that is not JSON', answer(200, 'hello')],
    ['a success without a body', answer(200, '')],
  ])('%s', async (_, step) => {
    steps = [step]
    await expect(client.projects.list()).rejects.toMatchObject({
      name: 'ApiError',
      code: 'server_error',
      message: expect.stringContaining('Check the base address'),
    })
  })

  it.each([301, 302, 303, 307, 308])('a redirect with %i: the key is not sent elsewhere', async (status) => {
    steps = [answer(status, '', { location: `${otherUrl}/v1/projects` })]
    await expect(client.projects.list()).rejects.toMatchObject({ details: { status } })
    await expect(client.projects.create({ body: { name: 'a' } })).rejects.toMatchObject({ details: { status } })
    expect(other).toEqual([])
  })

  it('a Link to another host: only its query is used', async () => {
    steps = [
      answer(200, list, { link: `<${otherUrl}/evil?cursor=c1&limit=2>; rel="next"` }),
      answer(200, list, { link: '<//elsewhere.example/x?cursor=c2>; rel=next' }),
      answer(200, list, { link: '<?cursor=c3>; rel="prev"' }),
    ]
    for await (const page of client.projects.list.pages({ query: { limit: 2 } })) expect(page).toEqual(list)
    expect(seen.map(({ url }) => url)).toEqual([
      '/v1/projects?limit=2',
      '/v1/projects?cursor=c1&limit=2',
      '/v1/projects?cursor=c2',
    ])
    expect(other).toEqual([])
  })

  it.each(['', '.', '..'])('that %j is an identifier', async (id) => {
    await expect(client.projects.get({ params: { project_id: id } })).rejects.toThrow('must be an identifier')
    expect(seen).toEqual([])
  })

  it('that a slash ends an identifier', async () => {
    steps = [answer(404, '')]
    await expect(client.projects.get({ params: { project_id: '../webhooks?x#y' } })).rejects.toThrow()
    expect(seen[0]?.url).toBe('/v1/projects/..%2Fwebhooks%3Fx%23y')
  })

  it('that headers of the caller replace the key', async () => {
    steps = [answer(200, list)]
    await client.projects.list({ headers: { Authorization: 'Bearer mine', 'X-Request-Id': 'mine' } })
    expect(seen[0]?.headers).toMatchObject({ authorization: 'Bearer fl_secret', 'x-request-id': 'mine' })
  })
})

describe.each(operations.filter(({ upload, text }) => upload || text).map((each) => [each.name, each] as const))(
  'the client of %s',
  (name, operation) => {
    const [group = '', verb = ''] = name.split('.')
    const kinds = Object.keys(paramKinds(operation)).map((param) => [param, 'x'])
    const call = () => {
      const groups = client as unknown as Record<string, Record<string, (input: unknown) => Promise<unknown>>>
      const isForm = operation.upload === 'multipart/form-data'
      const body = operation.upload ? { body: isForm ? new FormData() : new Blob(['bundle']) } : {}
      return groups[group]?.[verb]?.({ params: Object.fromEntries(kinds), ...body })
    }

    if (operation.upload) {
      it.each([
        ['cut', cut],
        ['answered with 500', failure(500, 'server_error', now)],
        ['answered with 429', failure(429, 'rate_limit_exceeded', now)],
      ])('sends an upload once, even when it is %s', async (_, step) => {
        steps = [step]
        await expect(call()).rejects.toThrow()
        expect(seen).toHaveLength(1)
        expect(seen[0]?.headers).not.toHaveProperty('idempotency-key')
        expect(seen[0]?.headers['content-type']).toMatch(new RegExp(`^${operation.upload}(; boundary=|$)`))
      })
    } else {
      it('passes on the response as a stream, after retries', async () => {
        steps = [cut, failure(503, 'server_error', now), answer(operation.status, 'line 1\nline 2\n')]
        const response = (await call()) as Response
        expect(await response.text()).toBe('line 1\nline 2\n')
        expect(seen).toHaveLength(3)
      })

      it('rejects with its errors as other calls do', async () => {
        steps = [failure(404, 'not_found')]
        await expect(call()).rejects.toMatchObject({ code: 'not_found', requestId: 'r-1' })
      })
    }
  },
)

describe('with a real server', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await testServer()
  })
  afterAll(() => server[Symbol.asyncDispose]())

  it('a retry after a lost response creates nothing twice', async () => {
    let sent = 0
    const losing: typeof fetch = async (...given) => {
      const response = await fetch(...given)
      if (sent++ > 0) return response
      await response.arrayBuffer()
      throw new TypeError('the answer was lost')
    }
    const unlucky = createClient({ baseUrl: server.baseUrl, apiKey: server.apiKey, fetch: losing })
    const made = await unlucky.projects.create({ body: { name: 'once' } })
    expect(sent).toBe(2)
    const { projects, total } = await server.client.projects.list()
    expect([projects.map(({ id }) => id), total]).toEqual([[made.id], 1])
  })

  it('paging through a growing list has no gaps and no repetitions', async () => {
    const account = await server.accounts.create({ name: 'pages', plan: 'pro' })
    const mine = server.clientFor(await server.key({ accountId: account.id }))
    const made: string[] = []
    for (let at = 0; at < 7; at++) made.push((await mine.projects.create({ body: { name: `${at}` } })).id)
    const listed: string[] = []
    for await (const page of mine.projects.list.pages({ query: { limit: 2 } })) {
      listed.push(...page.projects.map(({ id }) => id))
      await mine.projects.create({ body: { name: 'new' } })
    }
    expect(listed).toEqual(made.reverse())
  })
})
