import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { deployAndSettle } from '../deployments.ts'
import { type EndpointAnswer, ping, testEndpoint } from '../endpoint.ts'
import type { ServerProcess } from '../process.ts'
import { repository } from '../repository.ts'
import { temporaryDirectory } from '../temporary.ts'

/*
 * Measures how much work tenants' input causes in the server's one thread: 20 concurrent inputs of the worst kind,
 * compared with 20 ordinary inputs of the same size.
 */

/** The server's work for concurrent requests. */
export interface Work {
  /** The longest time that the thread worked before it served other connections. */
  readonly pauseMs: number
  /** The CPU time of all threads. */
  readonly cpuMs: number
  /** The growth of the process in memory. */
  readonly megabytes: number
  /** The longest response time of `/healthz`. */
  readonly healthMs: number
}

/** Sends one input, and resolves when the server has handled it. */
type Input = () => Promise<unknown>

/** One kind of input: an ordinary input, and the worst inputs of the same size by name. */
export interface Kind {
  readonly name: string
  readonly ordinary: Input
  readonly worst: Readonly<Record<string, Input>>
}

export interface Workbench extends AsyncDisposable {
  readonly kinds: readonly Kind[]
  /** Measures an input, sent 20 times at once. */
  measure(input: Input): Promise<Work>
  /** Measures `/healthz` without other requests. */
  idle(): Promise<Work>
}

const atOnce = 20

/** @param start starts a server with these settings, and returns a key of its operator as well */
export async function workbench(
  start: (settings: Readonly<Record<string, string>>) => Promise<{ server: ServerProcess; key: string }>,
): Promise<Workbench> {
  await using cleanup = new AsyncDisposableStack()
  const socket = join(cleanup.use(await temporaryDirectory()).path, 'pauses.sock')
  const preload = fileURLToPath(new URL('pauses.mjs', import.meta.url))
  const { server, key } = await start({ NODE_OPTIONS: `--import=${preload}`, PAUSES_SOCKET: socket })
  const kinds = await kindsOf(server, key, cleanup)

  const measure = async (work: () => Promise<unknown>): Promise<Work> => {
    await report(socket)
    const health = { isOver: false, longest: 0 }
    const watching = watchHealth(server.url, health)
    await work()
    health.isOver = true
    await watching
    return { ...(await report(socket)), healthMs: health.longest }
  }
  const owned = cleanup.move()
  return {
    kinds,
    measure: (input) => measure(() => Promise.all(Array.from({ length: atOnce }, input))),
    idle: () => measure(() => new Promise((done) => setTimeout(done, 2_000))),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

async function watchHealth(url: string, health: { readonly isOver: boolean; longest: number }): Promise<void> {
  while (!health.isOver) {
    const began = performance.now()
    await send(`${url}/healthz`, { method: 'GET' })
    health.longest = Math.max(health.longest, performance.now() - began)
  }
}

const report = (socketPath: string): Promise<Omit<Work, 'healthMs'>> =>
  new Promise((done, fail) => {
    request({ socketPath, path: '/' }, async (response) => {
      response.setEncoding('utf8')
      done(JSON.parse((await response.toArray()).join('')))
    })
      .on('error', fail)
      .end()
  })

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Buffer | string
}

/** Returns the status of a response; 0 when the server closed the connection first. */
const send = (url: string, { method = 'POST', headers = {}, body = '' }: Sent): Promise<number> =>
  new Promise((done) => {
    const length = method === 'GET' ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    request(url, { method, headers: { ...length, ...headers }, agent: false }, (response) => {
      response.resume().on('close', () => done(response.statusCode ?? 0))
    })
      .on('error', () => done(0))
      .end(body)
  })

/** Sends raw bytes, and resolves when the connection has ended. */
const sendRaw = (url: string, bytes: Buffer): Promise<void> =>
  new Promise((done) => {
    const { port, hostname } = new URL(url)
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    socket.on('error', () => undefined).on('close', () => done())
    socket.resume()
  })

const size = 900_000
/** The largest possible head of a request. */
const headSize = 14_000
const json = (value: unknown) => JSON.stringify(value)
const fill = (text: string, bytes = size) => text.repeat(bytes / Buffer.byteLength(text))
const list = <Item>(length: number, item: (at: number) => Item): Item[] => Array.from({ length }, (_, at) => item(at))
const record = (length: number, value: unknown) => Object.fromEntries(list(length, (at) => [`k${at}`, value]))
/** A text of this length is accepted, whatever limit other texts have. */
const longText = (text: string) => fill(text, 190_000)

async function kindsOf(server: ServerProcess, key: string, cleanup: AsyncDisposableStack): Promise<Kind[]> {
  const client = server.clientFor(key)
  const { id: projectId } = await client.projects.create({ body: { name: 'p', plan: 'enterprise' } })
  const project = `${server.url}/v1/projects/${projectId}`
  const authorization = `Bearer ${key}`
  const typed = (type: string) => ({ authorization, 'content-type': type })

  const post = (url: string, type: string) => (body: string | Buffer) => () => send(url, { headers: typed(type), body })
  /** One-byte chunks: too many chunks, and as many as the server accepts. */
  const inChunks = (url: string, type: string, body: string): Record<string, Input> => {
    const path = new URL(url).pathname
    const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: ${authorization}\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`
    const input = (text: string): Input => {
      const chunks = [...text].map((each) => `1\r\n${each}\r\n`).join('')
      const bytes = Buffer.from(`${head}${chunks}0\r\n\r\n`)
      return () => sendRaw(url, bytes)
    }
    return {
      'in chunks of a byte': input(body.slice(0, size / 6)),
      'in as many chunks of a byte as are taken at once': input(body.slice(0, 180)),
    }
  }
  const mapped = <From, To>(from: Readonly<Record<string, From>>, to: (from: From) => To): Record<string, To> =>
    Object.fromEntries(Object.entries(from).map(([name, each]) => [name, to(each)]))

  const formType = 'multipart/form-data; boundary=X'
  const form = post(`${project}/storage/upload`, formType)
  const part = (headers: string, content: string) => `--X\r\n${headers}\r\n\r\n${content}\r\n`
  const file = 'Content-Disposition: form-data; name="file"; filename="a.txt"'
  const ordinaryForm = form(`${part(file, fill('x'))}--X--\r\n`)

  const deployment = post(`${project}/deployments`, 'application/json')
  const ordinaryJson = deployment(json({ name: 7, pads: list(4, () => longText('x')) }))
  const app = { name: 'a', git_url: 'https://a.test/b' }
  const texts = ['a', ' ', '/', '.', '-', 'a@', '%41', 'ä', '\u202e']
  const longTexts = texts.map((text) => {
    const long = longText(text)
    return [
      `texts of ${json(text)}`,
      deployment(json({ name: long, git_url: long, branch: long, root: long })),
    ] as const
  })

  const webhook = post(`${server.url}/v1/webhooks`, 'application/json')
  const variables = (body: string) => () =>
    send(`${project}/apps/app_${'0'.repeat(26)}/variables`, {
      method: 'PATCH',
      headers: typed('application/json'),
      body,
    })
  const dotenv = (text: string) => variables(json({ dotenv: text }))

  const sources = post(`${project}/sources`, 'application/x-git-bundle')
  const header = (heads: string) => `# v2 git bundle\n${heads}`
  const pack = (objects: number) => {
    const head = Buffer.from('PACK\0\0\0\x02\0\0\0\0')
    head.writeUInt32BE(objects, 8)
    return head
  }
  const bundle = (objects: number) =>
    Buffer.concat([Buffer.from(header(`${'a'.repeat(40)} refs/heads/main\n\n`)), pack(objects), randomBytes(size)])

  const get =
    (path: string, headers: Readonly<Record<string, string>> = {}) =>
    () =>
      send(`${server.url}${path}`, { method: 'GET', headers: { authorization, ...headers } })
  const ordinaryHead = get('/v1/projects', { pad: fill('x', headSize) })
  const inPipeline = (path: string): Input => {
    const one = `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`
    return () => sendRaw(server.url, Buffer.from(fill(one)))
  }

  return [
    {
      name: 'parts of a form',
      ordinary: ordinaryForm,
      worst: {
        ...mapped(
          {
            'without headers': '--X\r\n\r\n\r\n'.repeat(size / 9),
            'without a name': part('Content-Disposition: form-data', '').repeat(size / 40),
            texts: part('Content-Disposition: form-data; name="t"', 'x').repeat(size / 49),
            'one with many headers': part(list(size / 6, () => 'a: b').join('\r\n'), ''),
            'one with a long header': part(`a: ${fill('x')}`, ''),
            'one with a long name': part(`Content-Disposition: form-data; name="${fill('\\"')}"`, ''),
            'boundaries that are none': part(file, '\r\n--'.repeat(size / 4)),
            hyphens: fill('-'),
            'ends of lines': fill('\r\n'),
          },
          form,
        ),
        ...inChunks(`${project}/storage/upload`, formType, part(file, fill('x'))),
      },
    },
    {
      name: 'JSON',
      ordinary: ordinaryJson,
      worst: {
        ...mapped(
          {
            'with 90,000 members': json(record(90_000, 0)),
            'with 9,000 members': json(record(9_000, 'x'.repeat(80))),
            'with 450,000 elements': `{"a":[${'0,'.repeat(size / 2 - 1)}0]}`,
            'with 450,000 levels': fill('['),
            'with 150,000 levels': fill('{"a":'),
            'with one number': `{"name":1${fill('0')}}`,
            'with one text': json({ name: fill('x') }),
            'with escapes': json({ name: 'x' }).replace('x', longText('\\u0061')),
            'of blanks': fill(' '),
          },
          deployment,
        ),
        ...Object.fromEntries(longTexts),
        ...inChunks(`${project}/deployments`, 'application/json', json({ name: fill('x') })),
      },
    },
    {
      name: 'lists',
      ordinary: ordinaryJson,
      worst: {
        'env_vars of 9,000 names': deployment(json({ ...app, env_vars: record(9_000, 'x'.repeat(80)) })),
        'env_vars of one value': deployment(json({ ...app, env_vars: { A: longText('x') } })),
        'events of 9,000 names': webhook(json({ url: 'https://a.test', events: list(9_000, () => 'x'.repeat(80)) })),
        'events of nothing': webhook(json({ url: 'https://a.test', events: list(9_000, () => '') })),
        'unset of 9,000 names': variables(json({ unset: list(9_000, (at) => `A${at}`.padEnd(80, 'x')) })),
      },
    },
    {
      name: 'dotenv',
      ordinary: variables(json({ dotenv: 7, pad: longText('x') })),
      worst: mapped(
        {
          'of many names': list(30_000, (at) => `A${at}=`)
            .join('\n')
            .slice(0, 190_000),
          'of wrong lines': fill('x\n', 190_000),
          'of blanks': `A=${longText(' ')}x`,
          'of comments': `A=${longText(' #')}`,
          'of quotes': fill('A="\n', 190_000),
          'of escapes': `A="${longText('\\n')}"`,
          'of names': `${longText('export ')}=`,
        },
        dotenv,
      ),
    },
    {
      name: 'heads',
      ordinary: ordinaryHead,
      worst: {
        ...Object.fromEntries(
          (
            [
              ['cookie', 'a=b; '],
              ['cookie', '=;'],
              ['authorization', 'Bearer '],
              ['accept', 'a/b;q=0.1,'],
              ['accept', 'text/event-stream, '],
              ['accept-encoding', 'gzip;q=0.1,'],
              ['accept-encoding', ' '],
              ['accept-language', 'a-b,'],
              ['x-forwarded-for', '1.1.1.1, '],
              ['x-forwarded-for', ' ,'],
              ['if-none-match', '"a", '],
              ['range', 'bytes=0-0,'],
              ['content-type', 'a/b; a="\\"";'],
              ['idempotency-key', 'a'],
              ['last-event-id', '0-'],
              ['x-request-id', 'a='],
              ['origin', 'http://a/'],
              ['forwarded', 'for=1;'],
            ] as const
          ).map(([name, text]) => [
            `${name}: ${json(text)}`,
            get('/dashboard/api/projects', { [name]: fill(text, headSize) }),
          ]),
        ),
        'thousands of fields': get('/v1/projects', record(1_200, 'x') as Record<string, string>),
        'path of slashes': get(fill('/', headSize)),
        'path of escapes': get(`/v1/projects/${fill('%41', headSize)}`),
        'path of folders': get(`/files/${fill('../', headSize)}`),
      },
    },
    {
      name: 'requests in a pipeline',
      ordinary: async () => {
        for (let sent = 0; sent < 100; sent++) await get('/v1/projects')()
      },
      worst: {
        'for the health': inPipeline('/healthz'),
        'for the API': inPipeline('/v1/projects'),
        'for the dashboard': inPipeline('/'),
      },
    },
    {
      name: 'queries and cursors',
      ordinary: ordinaryHead,
      worst: mapped(
        {
          'thousands of parameters': `?${fill('a&', headSize)}`,
          'one parameter a thousand times': `?${fill('limit=1&', headSize)}`,
          'cursor of letters': `?cursor=proj_${fill('a', headSize)}`,
          'cursor of escapes': `?cursor=${fill('%41', headSize)}`,
          'limit of digits': `?limit=${fill('1', headSize)}`,
          'q of blanks': `?q=${fill('%20', headSize)}`,
          brackets: `?${fill('a[a]', headSize)}=1`,
        },
        (query) => get(`/v1/projects${query}`),
      ),
    },
    {
      name: 'bundles',
      ordinary: sources(bundle(1_000)),
      worst: {
        'of many heads': sources(header(fill(`${'a'.repeat(40)} refs/heads/main\n`))),
        'of one line': sources(header(fill('a'))),
        'of ends of lines': sources(header(`x${fill('\n')}`)),
        'of two million objects': sources(bundle(2_000_000)),
        ...inChunks(
          `${project}/sources`,
          'application/x-git-bundle',
          bundle(1_000)
            .toString('latin1')
            .replaceAll(/[^ -~\n]/g, 'x'),
        ),
      },
    },
    await logsOf(projectId, get, client, cleanup),
    await sourcesOf(projectId, client, cleanup),
    await webhooksOf(client, cleanup),
  ]
}

type TestClient = ReturnType<ServerProcess['clientFor']>

/** Reads a log, in which the server masks the values of variables. */
async function logsOf(
  projectId: string,
  get: (path: string) => Input,
  client: TestClient,
  cleanup: AsyncDisposableStack,
): Promise<Kind> {
  const printing = async (lines: string, value: (at: number) => string): Promise<Input> => {
    const source = cleanup.use(
      await repository({
        'package.json': json({ scripts: { start: 'node server.js' } }),
        'lines.txt': lines,
        'server.js':
          "process.stdout.write(require('fs').readFileSync('lines.txt')); require('http').createServer((q, s) => s.end()).listen(process.env.PORT)",
      }),
    )
    const env_vars = Object.fromEntries(list(150, (at) => [`V${at}`, value(at)]))
    const made = await deployAndSettle(client, projectId, {
      name: `log ${value(0)}`.slice(0, 40),
      git_url: source.url,
      env_vars,
    })
    if (made.status !== 'running') throw new Error(`the app with a log is ${made.status}: ${json(made.failure)}`)
    return get(`/v1/projects/${projectId}/deployments/${made.id}/logs?tail=1000`)
  }
  const lines = (text: string) => list(450, () => fill(text, 1_998)).join('\n')
  const hostile = (at: number) => `${fill('a', 400)}${at}`
  return {
    name: 'reads of a log',
    ordinary: await printing(list(450, () => randomBytes(999).toString('hex')).join('\n'), () =>
      randomBytes(200).toString('hex'),
    ),
    worst: {
      'that is nearly secret': await printing(lines('a'), hostile),
      'with escapes that are nearly secret': await printing(lines('\\x61\\u0061'), hostile),
      'with percent signs that are nearly secret': await printing(lines('%61'), hostile),
    },
  }
}

/** Deploys files that the server reads to plan a build. The deployments fail before the build begins. */
async function sourcesOf(projectId: string, client: TestClient, cleanup: AsyncDisposableStack): Promise<Kind> {
  const deployed = async (files: Readonly<Record<string, string>>): Promise<Input> => {
    const source = cleanup.use(await repository(files))
    let round = 0
    return () => {
      round += 1
      // The planner handles two deployments at once. More deployments only take longer.
      if (round % 10 !== 0) return Promise.resolve()
      return deployAndSettle(client, projectId, { name: `source ${round % 20}`, git_url: source.url })
    }
  }
  return {
    name: 'files of a source',
    ordinary: await deployed({ 'fairlead.json': `{"pad": "${fill('x')}"` }),
    worst: {
      'fairlead.json with 90,000 members': await deployed({ 'fairlead.json': json(record(90_000, 0)) }),
      'fairlead.json with 450,000 levels': await deployed({ 'fairlead.json': fill('[') }),
    },
  }
}

/** Sends deliveries to an endpoint that answers with this. */
async function webhooksOf(client: TestClient, cleanup: AsyncDisposableStack): Promise<Kind> {
  const delivered = async (answer: EndpointAnswer): Promise<Input> => {
    const endpoint = cleanup.use(await testEndpoint(answer))
    const { id } = await client.webhooks.create({ body: { url: endpoint.url, events: ['*'] } })
    return () => ping(client, id)
  }
  const body =
    (content: string | Buffer, headers: Readonly<Record<string, string>> = {}): EndpointAnswer =>
    (response) =>
      void response
        .on('error', () => undefined)
        .writeHead(200, headers)
        .end(content)
  return {
    name: 'answers to webhooks',
    ordinary: await delivered(body(fill('x'))),
    worst: {
      'of zero bytes': await delivered(body(Buffer.alloc(size))),
      'of broken UTF-8': await delivered(body(Buffer.alloc(size, 0xff))),
      'with hundreds of headers': await delivered(body(fill('x'), record(500, 'xxxxxxxx') as Record<string, string>)),
    },
  }
}
