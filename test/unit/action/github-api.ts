import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

interface Comment {
  readonly id: number
  readonly node_id: string
  readonly isOfOthers: boolean
  body: string
}

interface Deployment {
  readonly id: number
  readonly environment: string
  readonly payload: unknown
  readonly request: Readonly<Record<string, unknown>>
  readonly statuses: Readonly<Record<string, unknown>>[]
}

export const TOKEN = 'ghs_abcdefghijklmnopqrstuvwxyz0123456789'

/** Returns an answer that replaces GitHub's usual answer, if any, for a method and a path. */
export type Override = (
  method: string,
  path: string,
) => { status: number; headers?: Record<string, string> } | undefined

/**
 * Starts a fake of the part of GitHub's REST API that the action uses (docs.github.com/rest): deployments with statuses,
 * comments in pages with `Link` headers, 401 without the token, 422 for bodies that GitHub refuses.
 */
export async function gitHubApi(
  options: {
    comments?: readonly (string | { readonly body: string; readonly isOfOthers: true })[]
    override?: Override
  } = {},
) {
  const comments: Comment[] = (options.comments ?? []).map((given, at) => {
    const { body, isOfOthers } = typeof given === 'string' ? { body: given, isOfOthers: false } : given
    return { id: at + 1, node_id: `IC_${at + 1}`, body, isOfOthers }
  })
  const deployments: Deployment[] = []
  const requests: string[] = []

  const routes = createRoutes(comments, deployments)

  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request.setEncoding('utf8')) text += chunk
    const url = new URL(request.url ?? '', `http://${request.headers.host}`)
    const prefix = '/api/v3/repos/acme/shop'
    const path = url.pathname.slice(prefix.length)
    const target = `${request.method} ${path}`
    requests.push(target)
    if (request.headers.authorization !== `token ${TOKEN}`) return give(response, 401, { message: 'Bad credentials' })
    if (url.pathname === '/api/graphql') {
      const { ids } = JSON.parse(text).variables as { readonly ids: readonly string[] }
      const nodes = ids.map((id) => ({ viewerDidAuthor: !comments.find(({ node_id }) => node_id === id)?.isOfOthers }))
      return give(response, 200, { data: { nodes } })
    }
    if (!url.pathname.startsWith(prefix)) return give(response, 404, { message: 'Not Found' })
    const override = options.override?.(request.method ?? '', path)
    if (override !== undefined) return give(response, override.status, { message: 'Refused' }, override.headers)
    if (target === 'GET /issues/12/comments') return page(response, url, comments)
    if (target === 'GET /deployments') {
      const environment = url.searchParams.get('environment')
      return page(
        response,
        url,
        deployments.filter((deployment) => deployment.environment === environment).toReversed(),
      )
    }
    const [, asked] = /^GET \/deployments\/(\d+)\/statuses$/.exec(target) ?? []
    if (asked !== undefined) {
      return page(response, url, deployments.find(({ id }) => id === Number(asked))?.statuses.toReversed() ?? [])
    }
    for (const [pattern, answer] of routes) {
      const match = pattern.exec(target)
      if (match) return give(response, ...answer(JSON.parse(text), ...match.slice(1)))
    }
    give(response, 404, { message: 'Not Found' })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    /** The value for GITHUB_API_URL, with the path of GitHub Enterprise Server. */
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v3`,
    comments,
    deployments,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

type Route = readonly [RegExp, (body: Record<string, unknown>, ...parts: string[]) => [number, unknown]]

/** Returns the routes that write, by method and path. The variable parts of the path follow the body as arguments. */
function createRoutes(comments: Comment[], deployments: Deployment[]): readonly Route[] {
  return [
    [
      /^POST \/deployments$/,
      (body) => {
        if (typeof body['ref'] !== 'string' || body['ref'] === '') return [422, { message: 'Validation Failed' }]
        const { environment = 'production', payload = {} } = body
        const made = {
          id: 100 + deployments.length,
          environment: String(environment),
          payload,
          request: body,
          statuses: [],
        }
        deployments.push(made)
        return [201, made]
      },
    ],
    [
      /^POST \/deployments\/(\d+)\/statuses$/,
      (body, id) => {
        const found = deployments.find((deployment) => deployment.id === Number(id))
        if (found === undefined) return [404, { message: 'Not Found' }]
        if (String(body['description']).length > 140) return [422, { message: 'Validation Failed' }]
        found.statuses.push(body)
        return [201, { id: 1, state: body['state'] }]
      },
    ],
    [
      /^POST \/issues\/12\/comments$/,
      (body) => {
        const id = comments.length + 1
        const made = { id, node_id: `IC_${id}`, body: String(body['body']), isOfOthers: false }
        comments.push(made)
        return [201, made]
      },
    ],
    [
      /^PATCH \/issues\/comments\/(\d+)$/,
      (body, id) => {
        const found = comments.find((comment) => comment.id === Number(id))
        if (found === undefined) return [404, { message: 'Not Found' }]
        found.body = String(body['body'])
        return [200, found]
      },
    ],
  ]
}

function page(response: ServerResponse, url: URL, items: readonly unknown[]): void {
  const size = Number(url.searchParams.get('per_page') ?? 30)
  const number = Number(url.searchParams.get('page') ?? 1)
  const next = new URL(url)
  next.searchParams.set('page', String(number + 1))
  const more = items.length > number * size
  give(response, 200, items.slice((number - 1) * size, number * size), more ? { link: `<${next}>; rel="next"` } : {})
}

function give(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
