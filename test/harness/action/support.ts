import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'

export const PROJECT = 'proj_01k7d2x3y4z5a6b7c8d9e0f1g2'
export const DEPLOYMENT = 'dep_01k7d2x3y4z5a6b7c8d9e0f1g3'
export const KEY = 'fl_abcdefghijklmnopqrstuvwxyz01234567890'
export const APP = 'http://127.0.0.1:8123'

/** An answer of the scripted server: an HTTP answer, a stream of events, no answer, or a broken connection. */
export type Answer =
  | { readonly status: number; readonly body: unknown; readonly headers?: OutgoingHttpHeaders }
  | { readonly events: string; readonly after: 'end' | 'drop' | 'hang' }
  | 'hang'
  | 'drop'

/** Answers to one kind of request; the last is repeated. */
type Answers = Answer | readonly Answer[]

export interface Script {
  readonly create: Answers
  /** Answers to polls of the deployment's state. */
  readonly polls?: Answers
  /** Answers to requests that follow the log. Without it, there is no log. */
  readonly log?: Answers
  readonly tail?: Answers
  readonly cancel?: Answers
}

export interface SeenRequest {
  readonly method: string | undefined
  readonly path: string | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Starts a server that has the API's routes and answers as the script says. */
export async function scriptedServer(script: Script) {
  const requests: SeenRequest[] = []
  const asked = new Map<keyof Script, number>()
  const answerTo = (kind: keyof Script): Answer => {
    const answers = [script[kind] ?? noLog].flat() as Answer[]
    const count = asked.get(kind) ?? 0
    asked.set(kind, count + 1)
    return answers[count] ?? answers.at(-1) ?? 'hang'
  }
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request.setEncoding('utf8')) body += chunk
    // The address of a server behind a proxy's path prefix.
    if (request.url === '/fairlead/healthz') return give(response, { status: 200, body: { status: 'alive' } })
    requests.push({ method: request.method, path: request.url, headers: request.headers, body })
    give(response, answerTo(kindOf(request)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    count: (kind: keyof Script) => asked.get(kind) ?? 0,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

function kindOf({ method, url = '', headers }: IncomingMessage): keyof Script {
  if (url.endsWith('/cancel')) return 'cancel'
  if (url.includes('/logs')) return headers.accept === 'text/event-stream' ? 'log' : 'tail'
  return method === 'POST' ? 'create' : 'polls'
}

function give(response: ServerResponse, answer: Answer): void {
  if (answer === 'hang') return
  if (answer === 'drop') {
    response.destroy()
    return
  }
  if ('events' in answer) {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(answer.events, () => {
      if (answer.after === 'end') response.end()
      if (answer.after === 'drop') response.destroy()
    })
    return
  }
  const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body)
  response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers }).end(text)
}

/** Returns a log as events: one event with an id per line, then the final event unless the connection is to break. */
export function logOf(lines: readonly string[], after: 'end' | 'drop' | 'hang' = 'end', firstId = 1): Answer {
  const events = lines.map((text, at) => {
    // Alternates between the older format and the format with a time.
    const data = at % 2 === 0 ? { stream: 'build', text } : { at: '2025-10-09T08:53:20.000Z', stream: 'build', text }
    return `id: ${firstId + at}\ndata: ${JSON.stringify(data)}\n\n`
  })
  const end = after === 'end' ? 'event: end\ndata: {"status":"running"}\n\n' : ''
  return { events: `: the log begins\n\n${events.join('')}${end}`, after }
}

export const created: Answer = {
  status: 201,
  body: { id: DEPLOYMENT, name: 'shop', status: 'building', url: APP, created_at: '2025-10-09T08:53:20.000Z' },
}

export function seen(
  status: string,
  failure: { stage: string; code: string; message: string } | null = null,
  commit: string | null = null,
): Answer {
  return {
    status: 200,
    body: {
      id: DEPLOYMENT,
      name: 'shop',
      status,
      url: APP,
      created_at: '2025-10-09T08:53:20.000Z',
      project_id: PROJECT,
      git_url: 'https://github.com/acme/shop.git',
      branch: 'main',
      commit,
      failure,
      started_at: null,
      finished_at: null,
    },
  }
}

export function refusal(status: number, code: string, message: string, details: unknown = {}): Answer {
  return { status, body: { error: { code, message, details } }, headers: { 'x-request-id': 'req-1', ...retryNow } }
}

/** Lets the client retry without a pause. */
const retryNow = { 'retry-after': '0' }
const noLog = refusal(404, 'not_found', 'x')

export function page(status: number, headers: OutgoingHttpHeaders = {}): Answer {
  return { status, body: '<html>gateway</html>', headers: { 'content-type': 'text/html', ...retryNow, ...headers } }
}
