import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export const PROJECT = 'proj_01k7d2x3y4z5a6b7c8d9e0f1g2'
export const DEPLOYMENT = 'dep_01k7d2x3y4z5a6b7c8d9e0f1g3'
export const KEY = 'fl_abcdefghijklmnopqrstuvwxyz01234567890'
export const APP = 'http://127.0.0.1:8123'

/** One answer of the scripted server: an HTTP answer, none at all, or a connection that breaks. */
export type Answer =
  | { readonly status: number; readonly body: unknown; readonly headers?: OutgoingHttpHeaders }
  | 'hang'
  | 'drop'

export interface Script {
  readonly create: Answer
  /** One for each look at the deployment; the last is repeated. */
  readonly polls?: readonly Answer[]
}

export interface SeenRequest {
  readonly method: string | undefined
  readonly path: string | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A server that follows the shapes of the API and answers by a script, until it is disposed of. */
export async function scriptedServer(script: Script) {
  const requests: SeenRequest[] = []
  let polls = 0
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request.setEncoding('utf8')) body += chunk
    requests.push({ method: request.method, path: request.url, headers: request.headers, body })
    const answers = script.polls ?? []
    give(response, request.method === 'POST' ? script.create : (answers[polls++] ?? answers.at(-1) ?? 'hang'))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

function give(response: ServerResponse, answer: Answer): void {
  if (answer === 'hang') return
  if (answer === 'drop') {
    response.destroy()
    return
  }
  const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body)
  response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers }).end(text)
}

/** The answer to a creation. */
export const created: Answer = {
  status: 201,
  body: { id: DEPLOYMENT, name: 'shop', status: 'building', url: APP, created_at: '2025-10-09T08:53:20.000Z' },
}

/** The answer to a look at the deployment. */
export function seen(status: string, failure: { stage: string; code: string; message: string } | null = null): Answer {
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
      commit: null,
      failure,
      started_at: null,
      finished_at: null,
    },
  }
}

/** An error of the API. */
export function refusal(status: number, code: string, message: string, details: unknown = {}): Answer {
  return { status, body: { error: { code, message, details } }, headers: { 'x-request-id': 'req-1' } }
}

/** A proxy's page. */
export function page(status: number, headers: OutgoingHttpHeaders = {}): Answer {
  return { status, body: '<html>gateway</html>', headers: { 'content-type': 'text/html', ...headers } }
}
