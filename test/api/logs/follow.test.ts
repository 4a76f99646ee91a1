import { EventSourceParserStream } from 'eventsource-parser/stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import { type SignedInBrowser, type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let user: SignedInBrowser
let source: Repository
let projectId: string
beforeAll(async () => {
  server = await testServer()
  user = await server.signIn()
  projectId = (await server.client.projects.create({ body: { name: 'p' } })).id
  source = await repository({
    'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
    'server.js': `require('node:http').createServer((request, response) => {
  console.log('asked for ' + request.url)
  response.end()
}).listen(process.env.PORT)`,
  })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await source[Symbol.asyncDispose]()
})

interface Data {
  readonly index: number
  readonly events?: string
  readonly error?: { readonly code: string }
}

/** Follows these logs as a browser does. `until` resolves to the first data that fits. */
async function follow(logs: readonly string[], by = user) {
  const gone = new AbortController()
  const query = new URLSearchParams({ follow: logs.join(',') })
  const response = await by.fetch(`${server.url}/dashboard/api/logs?${query}`, { signal: gone.signal })
  const reader = response.body
    ?.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
    .getReader()
  const until = async (fits: (data: Data) => boolean): Promise<Data> => {
    for (;;) {
      const next = await reader?.read()
      if (next?.value === undefined) throw new Error('the stream has ended')
      const data = JSON.parse(next.value.data) as Data
      if (fits(data)) return data
    }
  }
  return { status: response.status, type: response.headers.get('content-type'), until, close: () => gone.abort() }
}

const has = (index: number, text: string) => (data: Data) =>
  data.index === index && data.events?.includes(`"text":"${text}"`) === true

describe('GET /logs', () => {
  it('streams the logs of several deployments, each from its last position', async () => {
    const [one, two] = await Promise.all(
      ['one', 'two'].map((name) => deployAndSettle(server.client, projectId, { name, git_url: source.url })),
    )
    if (one === undefined || two === undefined) throw new Error('nothing was deployed')
    const first = await follow([`${projectId}/${one.id}`, `${projectId}/${two.id}`])
    expect(first.type).toContain('text/event-stream')
    await fetch(`${two.url}/b`)
    await first.until(has(1, 'asked for /b'))
    await fetch(`${one.url}/a`)
    const { events = '' } = await first.until(has(0, 'asked for /a'))
    first.close()

    await fetch(`${one.url}/c`)
    const again = await follow([
      `${projectId}/${one.id}/${/id: (.*)\n/.exec(events.slice(events.lastIndexOf('id: ')))?.[1]}`,
    ])
    const next = await again.until(({ events }) => events?.includes('data:') === true)
    expect(next.events).toContain('asked for /c')
    expect(next.events).not.toContain('asked for /a')
    await server.client.deployments.stop({ params: { project_id: projectId, id: one.id } })
    await again.until(({ events }) => events?.includes('event: end\ndata: {"status":"stopped"}') === true)
    await expect(again.until(() => true)).rejects.toThrow('the stream has ended')
  })

  it('has an error in place of a missing or foreign log, and continues with the others', async () => {
    const { id, url } = await deployAndSettle(server.client, projectId, { name: 'three', git_url: source.url })
    const account = await server.accounts.create({ name: 'other', plan: 'pro' })
    const stranger = await server.signIn({ accountId: account.id })
    const foreign = await follow([`${projectId}/${id}`], stranger)
    expect((await foreign.until(() => true)).error?.code).toBe('not_found')
    await expect(foreign.until(() => true)).rejects.toThrow('the stream has ended')

    const missing = id.replace(/.$/, (last) => (last === '0' ? '1' : '0'))
    const both = await follow([`${projectId}/${missing}`, `${projectId}/${id}`])
    expect((await both.until(({ index }) => index === 0)).error?.code).toBe('not_found')
    await fetch(`${url}/still`)
    await both.until(has(1, 'asked for /still'))
    both.close()
  })

  it('ends when the user signs out', async () => {
    const { id } = await deployAndSettle(server.client, projectId, { name: 'four', git_url: source.url })
    const leaving = await server.signIn()
    const stream = await follow([`${projectId}/${id}`], leaving)
    await stream.until(() => true)
    await leaving.dashboard.session.delete()
    await expect(stream.until(() => false)).rejects.toThrow('the stream has ended')
  })

  it('refuses malformed names, too many logs, and keys', async () => {
    for (const logs of [['x'], [], Array.from({ length: 51 }, () => `${projectId}/${'dep_'.padEnd(30, '0')}`)]) {
      expect((await follow(logs)).status).toBe(400)
    }
    const byKey = await fetch(`${server.baseUrl}/logs?follow=x`, {
      headers: { authorization: `Bearer ${server.apiKey}` },
    })
    expect(byKey.status).toBe(403)
  })
})
