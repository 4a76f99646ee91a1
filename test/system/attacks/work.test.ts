import { request } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ServerProcess } from '../../harness/process.ts'
import { type ServerProcesses, serverProcesses } from '../../harness/server-processes.ts'

/*
 * The work that one request may cause in the server's one thread: 20 requests at once of the worst kind against 20 ordinary ones of the
 * same size, in the same run.
 */

const atOnce = 20
const size = 900_000
/** The work of the machine itself. */
const noise = { cpuMs: 150, pauseMs: 30 }
const most = 3

let servers: ServerProcesses
let server: ServerProcess
let key: string
let projectId: string
let socket: string
beforeAll(async () => {
  servers = await serverProcesses()
  socket = join(servers.directory, 'pauses.sock')
  const preload = fileURLToPath(new URL('fixtures/pauses.mjs', import.meta.url))
  server = await servers.start({ NODE_OPTIONS: `--import=${preload}`, PAUSES_SOCKET: socket })
  key = await servers.key()
  projectId = (await server.clientFor(key).projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
})
afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await servers?.[Symbol.asyncDispose]()
})

interface Asked {
  readonly method?: string
  readonly path: string
  readonly type?: string
  readonly body: string
}

interface Work {
  readonly cpuMs: number
  readonly pauseMs: number
  readonly megabytes: number
}

const question = (): Promise<Work> =>
  new Promise((done, fail) => {
    request({ socketPath: socket, path: '/' }, async (response) => {
      response.setEncoding('utf8')
      done(JSON.parse((await response.toArray()).join('')))
    })
      .on('error', fail)
      .end()
  })

/** Returns the status of an answer; 0 for a connection that the server has ended before. */
const ask = ({ method = 'POST', path, type = 'application/json', body }: Asked): Promise<number> =>
  new Promise((done) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': type, 'content-length': Buffer.byteLength(body) }
    const sent = request(`${server.url}/v1${path}`, { method, headers, agent: false }, (response) => {
      response.resume().on('close', () => done(response.statusCode ?? 0))
    })
    sent.on('error', () => done(0)).end(body)
  })

/** Returns what the server does for so many requests at once, and the longest that `/healthz` took beside them. */
async function workFor(asked: Asked): Promise<Work & { readonly statuses: readonly number[] }> {
  await question()
  const statuses = await Promise.all(Array.from({ length: atOnce }, () => ask(asked)))
  return { ...(await question()), statuses: [...new Set(statuses)] }
}

const json = (value: unknown) => JSON.stringify(value)
const many = <Item>(item: (at: number) => Item, bytes = 10): Item[] =>
  Array.from({ length: size / bytes }, (_, at) => item(at))
const filler = 'x'.repeat(size)
const record = Object.fromEntries(many((at) => [`k${at}`, 0]))
const form = (body: string): Asked => ({
  path: `/projects/${projectId}/storage/upload`,
  type: 'multipart/form-data; boundary=X',
  body,
})
const part = (headers: string, content: string) => `--X\r\n${headers}\r\n\r\n${content}\r\n`
const file = 'Content-Disposition: form-data; name="file"; filename="a.txt"'

/** A body that is read, parsed and refused. */
const ordinaryJson = (path: string): Asked => ({ path, body: json({ name: 7, pad: filler }) })
const ordinaryForm = (): Asked => form(`${part(file, filler)}--X--\r\n`)

const bodies: Record<string, (name: string) => string> = {
  'of 90,000 members': () => json(record),
  'of 450,000 elements': () => `{"a":[${'0,'.repeat(size / 2 - 1)}0]}`,
  'of escapes': () => `{"name":"${'\\u0061'.repeat(size / 6)}"}`,
  'of one number': () => `{"name":1${'0'.repeat(size)}}`,
  'with 90,000 variables': () => json({ name: 'a', git_url: 'https://a.test/b', env_vars: record }),
  'with one large variable': () => json({ name: 'a', git_url: 'https://a.test/b', env_vars: { A: filler } }),
  'with 450,000 events': () => json({ url: 'https://a.test', events: many(() => '', 3) }),
  ...Object.fromEntries(
    [
      'name',
      'git_url',
      'branch',
      'commit',
      'image',
      'root',
      'url',
      'schedule',
      'command',
      'reference',
      'domain',
    ].flatMap((field) =>
      ['a', ' ', '/', '.', '@', '-', 'a.', 'a@', '%41', '\u202e', 'ä'].map((text) => [
        `with ${JSON.stringify(text)} for ${field}`,
        () => json({ name: 'a', [field]: text.repeat(size / Buffer.byteLength(text)) }),
      ]),
    ),
  ),
}

const paths = () => ({
  'a project': '/projects',
  'a deployment': `/projects/${projectId}/deployments`,
  'a webhook': '/webhooks',
  'a database': `/projects/${projectId}/databases`,
  'a certificate': '/certificates',
  'a key': '/api-keys',
})

const within = (worst: Work, ordinary: Work) => ({
  cpu: worst.cpuMs <= ordinary.cpuMs * most + noise.cpuMs,
  pause: worst.pauseMs <= ordinary.pauseMs * most + noise.pauseMs,
})

it('no JSON body takes the server much longer than an ordinary one of its size', async () => {
  const found: Record<string, unknown> = {}
  for (const [what, path] of Object.entries(paths())) {
    await workFor(ordinaryJson(path))
    const ordinary = await workFor(ordinaryJson(path))
    for (const [kind, body] of Object.entries(bodies)) {
      const worst = await workFor({ path, body: body(what) })
      const { cpu, pause } = within(worst, ordinary)
      if (!cpu || !pause) found[`${what} ${kind}`] = { worst, ordinary }
    }
  }
  expect(found).toEqual({})
}, 300_000)

it('no form takes the server much longer than an ordinary one of its size', async () => {
  await workFor(ordinaryForm())
  const ordinary = await workFor(ordinaryForm())
  const forms: Record<string, string> = {
    'parts without headers': '--X\r\n\r\n\r\n'.repeat(size / 9),
    'parts without a name': part('Content-Disposition: form-data', '').repeat(size / 40),
    'text parts': part('Content-Disposition: form-data; name="t"', 'x').repeat(size / 49),
    'one part of many headers': part(
      Array(size / 6)
        .fill('a: b')
        .join('\r\n'),
      '',
    ),
    'one header': part(`a: ${filler}`, ''),
    'boundaries that are none': part(file, '\r\n--'.repeat(size / 4)),
    hyphens: '-'.repeat(size),
    'ends of lines': '\r\n'.repeat(size / 2),
  }
  const found: Record<string, unknown> = {}
  for (const [kind, body] of Object.entries(forms)) {
    const worst = await workFor(form(body))
    const { cpu, pause } = within(worst, ordinary)
    if (!cpu || !pause) found[kind] = { worst, ordinary }
  }
  expect(found).toEqual({})
}, 120_000)
