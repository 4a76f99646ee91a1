import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { followLog } from '../../harness/logs.ts'
import { exchange } from '../../harness/raw.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import { type OwnServer, ownServer } from '../../harness/server.ts'

const secret = 'a secret value'

let server: OwnServer
let projectId: string
let source: Repository
let id: string
let url: string
beforeAll(async () => {
  server = await ownServer()
  projectId = (await server.client.projects.create({ body: { name: 'p' } })).id
  source = await repository({
    'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
    'build.js': "console.log('built with', process.env.SECRET)",
    'server.js': `console.log('started')
require('node:http').createServer((request, response) => {
  console.log('asked for ' + request.url)
  response.end()
}).listen(process.env.PORT)`,
  })
  const made = await deployAndSettle(server.client, projectId, {
    name: 'web',
    git_url: source.url,
    env_vars: { SECRET: secret },
  })
  id = made.id
  url = made.url
  // Lines are written in order: with this one, all lines of the start are there.
  await fetch(`${url}/first`)
  await vi.waitUntil(async () => (await read({ stream: 'runtime' })).includes('asked for /first'), 30_000)
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await source[Symbol.asyncDispose]()
})

const follow = (headers: Record<string, string>, deploymentId = id) =>
  followLog(server.client, projectId, deploymentId, headers)

type Query = { tail?: string; stream?: 'build' | 'runtime'; since?: string; timestamps?: 'true' | 'false' }
const read = async (query: Query = {}) => {
  const response = await server.client.deployments.logs({ params: { project_id: projectId, id }, query })
  expect(response.headers.get('content-type')).toContain('text/plain')
  return (await response.text()).split('\n').slice(0, -1)
}

describe('GET /projects/:project_id/deployments/:id/logs', () => {
  it('answers with the lines of the build and of the app, with the values of variables masked', async () => {
    const lines = await read()
    expect(lines).toContain('built with ***')
    expect(lines.join()).not.toContain(secret)
    expect(lines.indexOf('built with ***')).toBeLessThan(lines.indexOf('started'))
    expect(await read({ stream: 'build' })).not.toContain('started')
    expect(await read({ stream: 'runtime' })).not.toContain('built with ***')
    expect(await read({ tail: '1', stream: 'build' })).toEqual(['built with ***'])
    expect(await read({ tail: '0' })).toEqual([])
  })

  it('answers with the lines from a given time on', async () => {
    expect(await read({ since: '2020-01-01T00:00:00+01:00' })).toEqual(await read())
    await fetch(`${url}/before`)
    const followed = await follow({ 'last-event-id': '0-0' })
    const before = await followed.until(({ data }) => data['text'] === 'asked for /before')
    const at = String(before.data['at'])
    await vi.waitUntil(() => Date.now() > Date.parse(at))
    await fetch(`${url}/later`)
    await followed.until(({ data }) => data['text'] === 'asked for /later')
    followed.close()
    const lines = await read({ since: new Date(Date.parse(at) + 1).toISOString() })
    expect(lines).toEqual(['asked for /later'])
    expect(await read({ since: at, tail: '1' })).toEqual(['asked for /later'])
  })

  it('begins each line with its time and stream on request', async () => {
    const plain = await read()
    expect(await read({ timestamps: 'false' })).toEqual(plain)
    const followed = await follow({ 'last-event-id': '0-0' })
    const { data } = await followed.until((event) => event.data['text'] === 'started')
    followed.close()
    const lines = await read({ timestamps: 'true' })
    expect(lines).toContain(`${data['at']} runtime started`)
    const form = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (build|runtime) (.*)$/
    expect(lines.map((line) => form.exec(line)?.[2])).toEqual(await read())
    expect(lines.join()).not.toContain(secret)
    expect(await read({ timestamps: 'true', stream: 'build', tail: '1' })).toEqual([
      expect.stringMatching(/Z build built with \*\*\*$/),
    ])
  })

  it('keeps the log of a build that failed', async () => {
    await using broken = await repository({
      'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node x.js' } }),
      'build.js': "console.log('this is why'); process.exit(1)",
    })
    const failed = await deployAndSettle(server.client, projectId, { name: 'broken', git_url: broken.url })
    const response = await server.client.deployments.logs({ params: { project_id: projectId, id: failed.id } })
    expect(await response.text()).toContain('this is why\n')
    const followed = await follow({}, failed.id)
    expect((await followed.until((event) => event.name === 'end')).data).toEqual({ status: 'failed' })
  })

  it('shows no part of a secret in the reason of a failure when the cut splits the secret', async () => {
    await using broken = await repository({
      'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node x.js' } }),
      'build.js': "console.log('x'.repeat(495) + process.env.SECRET); process.exit(1)",
    })
    const given = { name: 'telltale', git_url: broken.url, env_vars: { SECRET: secret } }
    const { failure } = await deployAndSettle(server.client, projectId, given)
    expect(failure?.message).toMatch(/x{495}\*\*\*$/)
  })

  it.each([
    ['a word as tail', { tail: 'all' }, 'tail'],
    ['too large a tail', { tail: '100001' }, 'tail'],
    ['a time without a zone', { since: '2026-01-01T00:00:00' }, 'since'],
    ['a word as timestamps', { timestamps: 'yes' as 'true' }, 'timestamps'],
    ['another stream', { stream: 'other' as 'build' }, 'stream'],
  ])('refuses %s', async (_, query, field) => {
    await expect(
      server.client.deployments.logs({ params: { project_id: projectId, id }, query }),
    ).rejects.toMatchObject({ code: 'invalid_request', details: { field } })
  })

  it('ends a followed log whose client half-closes, and answers a plain read completely', async () => {
    const ask = (accept: string) =>
      exchange(
        server.url,
        `GET /v1/projects/${projectId}/deployments/${id}/logs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${server.apiKey}\r\nAccept: ${accept}\r\n\r\n`,
        { ends: true },
      )
    expect(await ask('text/event-stream')).not.toContain('event: end')
    expect(await ask('text/plain')).toContain('started\n')
  })

  it('tells proxies not to buffer a followed log', async () => {
    const gone = new AbortController()
    const { headers } = await server.client.deployments.logs({
      params: { project_id: projectId, id },
      headers: { accept: 'text/event-stream' },
      signal: gone.signal,
    })
    gone.abort()
    expect(headers.get('x-accel-buffering')).toBe('no')
    expect(headers.get('cache-control')).toBe('no-store, no-transform')
  })

  it('follows lines as they are written, and resumes after the last event id', async () => {
    const first = await follow({})
    await first.until(({ data }) => data['text'] === 'started')
    await fetch(`${url}/one`)
    const seen = await first.until(({ data }) => data['text'] === 'asked for /one')
    expect(seen.data).toEqual({
      at: expect.stringMatching(/^[\d-]{10}T[\d:]{8}\.\d{3}Z$/),
      stream: 'runtime',
      process: 'web.1',
      text: 'asked for /one',
    })
    first.close()

    await fetch(`${url}/two`)
    const again = await follow({ 'last-event-id': seen.id })
    expect((await again.next()).data).toMatchObject({ stream: 'runtime', text: 'asked for /two' })
    await fetch(`${url}/three`)
    expect((await again.next()).data).toMatchObject({ stream: 'runtime', text: 'asked for /three' })
    await server.client.deployments.stop({ params: { project_id: projectId, id } })
    expect((await again.until((event) => event.name === 'end')).data).toEqual({ status: 'stopped' })
  })

  it('resumes after a restart of the server, with each line once', async () => {
    const made = await deployAndSettle(server.client, projectId, { name: 'restarted', git_url: source.url })
    const first = await follow({}, made.id)
    await fetch(`${made.url}/one`)
    const seen = await first.until(({ data }) => data['text'] === 'asked for /one')
    first.close()
    await fetch(`${made.url}/two`)
    await server.restart()
    const again = await follow({ 'last-event-id': seen.id }, made.id)
    const lines: unknown[] = []
    const readLine = async () => {
      const { data } = await again.next()
      expect(data).toMatchObject({ at: expect.any(String), stream: 'runtime' })
      // The server requests `/` for its health check.
      if (data['text'] !== 'asked for /') lines.push(data['text'])
    }
    while (!lines.includes('started')) await readLine()
    await expect.poll(() => fetch(`${made.url}/three`).then(({ status }) => status), { timeout: 30_000 }).toBe(200)
    while (!lines.includes('asked for /three')) await readLine()
    expect(lines).toEqual(['asked for /two', 'started', 'asked for /three'])
    again.close()
  })

  it('answers the same 404 as for an id that never existed', () =>
    expectNotFound(server, 'deployments.logs', { project_id: projectId, id }))
})
