import type { IncomingMessage, ServerResponse } from 'node:http'
import { answer, answerText, answerUnknownHost } from '../http1/answers.ts'
import { hasOneHost } from '../http1/request-head.ts'
import { hostnameOf, parseTarget } from '../http1/target.ts'
import type { AppProxy } from '../proxy/proxy.ts'
import type { App } from './apps.ts'
import type { RequestHandler } from './listener.ts'

export interface Found {
  readonly app: App
  /** The name that matched, which may be a wildcard. */
  readonly hostname: string
  /** The host to redirect the visitor to; null when the app answers. */
  readonly redirectTo: string | null
}

/**
 * Returns the handler for requests from an edge. It answers paths that have a stored answer, redirects visitors to the
 * right host and scheme, and passes everything else to the app of the host.
 */
export function createEdgeHandler({
  find,
  answers,
  proxy,
  httpsPort,
}: {
  readonly find: (authority: string) => Found | null
  readonly answers: ReadonlyMap<string, string>
  readonly proxy: AppProxy
  readonly httpsPort: number
}): RequestHandler {
  const port = httpsPort === 443 ? '' : `:${httpsPort}`

  return (req, res, upgradeHead) => {
    const target = parseTarget(req.url ?? '')
    const text = target === null ? undefined : answerTo(req, target.path, answers)
    if (text !== undefined) {
      answerText(res, text)
      return
    }
    const authority = target?.authority ?? req.headers.host ?? ''
    const found = find(authority)
    if (found === null) answerUnknownHost(res)
    else if (target !== null && found.redirectTo !== null)
      redirect(req, res, `https://${found.redirectTo}${port}`, target.path)
    // An edge redirects this itself, except at paths for which the gateway might have had an answer.
    else if (target !== null && req.headers['x-forwarded-proto'] === 'http')
      redirect(req, res, `https://${hostnameOf(authority)}${port}`, target.path)
    else proxy(found.app, req, res, upgradeHead)
  }
}

/**
 * Returns the handler for the shared port, which visitors or another proxy use. It redirects visitors to the right
 * host, and passes everything else to the app of the host.
 */
export function createHostHandler({
  find,
  proxy,
  scheme,
}: {
  readonly find: (authority: string) => Found | null
  readonly proxy: AppProxy
  readonly scheme: string
}): RequestHandler {
  return (req, res, upgradeHead) => {
    const target = parseTarget(req.url ?? '')
    const authority = target?.authority ?? req.headers.host ?? ''
    const found = find(authority)
    if (found === null) answerUnknownHost(res)
    else if (target !== null && found.redirectTo !== null)
      redirect(req, res, `${scheme}://${found.redirectTo}${portIn(authority)}`, target.path)
    else proxy(found.app, req, res, upgradeHead)
  }
}

/** Visitors see this port; proxies in between may use others. */
const portIn = (authority: string): string => /:\d{1,5}$/.exec(authority)?.[0] ?? ''

function redirect(req: IncomingMessage, res: ServerResponse, origin: string, path: string): void {
  if (!hasOneHost(req.rawHeaders)) answer(res, 400, 'The request has no single valid Host.')
  else {
    const location = `${origin}${path === '*' ? '/' : path}`
    answer(res, 308, `The address is ${location}`, ['Location', location])
  }
}

function answerTo({ method }: IncomingMessage, path: string, answers: ReadonlyMap<string, string>): string | undefined {
  // First, because all requests pass here.
  if (!path.startsWith('/.well-known/') || (method !== 'GET' && method !== 'HEAD')) return undefined
  const query = path.indexOf('?')
  return answers.get(query === -1 ? path : path.slice(0, query))
}
