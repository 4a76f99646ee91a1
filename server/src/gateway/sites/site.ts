import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { findFallback } from './fallback.ts'
import { type FoundFile, findFile, openFile, parsePath } from './files.ts'
import { sendFile, sendText } from './send.ts'

/** A static site that is served. */
export interface Site {
  /** The absolute path of its folder, without links. */
  readonly folder: string
  /** True when the routes of the site exist in the browser alone: a page answers for paths without a file. */
  readonly fallback?: true
}

/** The answer to a path, before the conditions and the range of its request are looked at. */
type Reply =
  | { readonly status: 200 | 404; readonly file: FoundFile }
  | { readonly status: 301; readonly location: string }
  | { readonly status: 400 | 404; readonly text: string }
  /** The folder of the site cannot be read. */
  | { readonly status: 503 }

/**
 * Answers a request from the folder of a static site. Resolves to false, with nothing sent, when the folder cannot be read.
 * Rejects when a file cannot be read for another reason than that it is not there.
 *
 * @param target the path of the request with its query
 */
export async function answerSite(
  site: Site,
  target: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<boolean> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD')
    sendText(response, 405, 'Method Not Allowed')
    return true
  }
  const reply = await replyTo(site, target)
  if (reply.status === 503) return false
  if ('file' in reply) await sendFile(request, response, reply.file, reply.status)
  else if ('text' in reply) sendText(response, reply.status, reply.text)
  else {
    response.setHeader('location', reply.location)
    sendText(response, 301, 'Moved Permanently')
  }
  return true
}

/** Returns the status that a GET of the path would have. */
export async function probeSite(site: Site, target: string): Promise<number> {
  const reply = await replyTo(site, target).catch(() => ({ status: 503 }) as const)
  if ('file' in reply) await reply.file.file.close()
  return reply.status
}

async function replyTo({ folder: root, fallback }: Site, target: string): Promise<Reply> {
  const queryAt = target.indexOf('?')
  const path = queryAt === -1 ? target : target.slice(0, queryAt)
  const segments = parsePath(path)
  if (segments === null) return { status: 400, text: 'Bad Request' }
  const found = await findFile(root, segments, path.endsWith('/'))
  if (found === 'folder') {
    // Relative links in the page start at the folder. One leading slash only: "//host" would lead to another site.
    const location = `/${segments.map(encodeURIComponent).join('/')}/${queryAt === -1 ? '' : target.slice(queryAt)}`
    return { status: 301, location }
  }
  if (found !== null) return { status: 200, file: found }
  const routed = fallback === true ? await findFallback(root, segments) : null
  if (routed !== null) return { status: 200, file: routed }
  const page = await openFile(root, join(root, '404.html'))
  if (page !== null) return { status: 404, file: page }
  const isReadable = await access(root, constants.R_OK | constants.X_OK).then(
    () => true,
    () => false,
  )
  return isReadable ? { status: 404, text: 'Not Found' } : { status: 503 }
}
