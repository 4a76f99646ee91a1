import { constants, type Stats } from 'node:fs'
import { access, type FileHandle, lstat, open, readlink, realpath } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { extname, join, relative, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { mimes } from 'mrmime'
import { outcome } from '../../platform/conditional-requests.ts'
import { answerUnreadable } from '../http1/answers.ts'
import { DEPLOYMENT_HEADER_ON_WIRE } from '../http1/raw-headers.ts'
import type { SiteEndpoint } from '../protocol/calls.ts'
import type { Log } from '../protocol/log.ts'
import type { Backend } from './backend.ts'
import { faultOf } from './faults.ts'
import { countAnswer, countTime, cut, type Route } from './route.ts'

/**
 * Answers a request from the folder of a route's static site. The request counts as running until its answer is closed.
 */
export function serveSite(
  route: Route,
  backend: Backend,
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
  log: Log,
): void {
  const { site } = backend
  if (site === null) return
  const startedAt = performance.now()
  const cutThis = () => cut({ outgoing: null, req, client: req.socket })
  const leaveRoute = route.running.add(cutThis)
  const leaveSite = site.running.add(cutThis)
  res.on('close', () => {
    countAnswer(route.traffic, res)
    if (res.writableFinished) countTime(route.traffic, startedAt)
    leaveRoute()
    leaveSite()
  })
  answerFromSite({ backend, site: site.endpoint, req, res, path, log })
}

/** Answers from the folder of a site. Cuts the connection when a file cannot be sent as its head announced. */
export function answerFromSite(request: {
  readonly backend: Backend
  readonly site: SiteEndpoint
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly path: string
  readonly log: Log
}): void {
  const { backend, site, req, res, path, log } = request
  const { deploymentId } = backend.upstream
  res.setHeader(DEPLOYMENT_HEADER_ON_WIRE, deploymentId)
  const fail = (error: unknown): void => {
    // A visitor who leaves early is not an error.
    if (res.destroyed) return
    log.warn({ fault: faultOf(error), deploymentId }, 'a file of a static site could not be sent')
    if (res.headersSent) cut({ outgoing: null, req, client: req.socket })
    else answerUnreadable(res)
  }
  answerSite(site, path, req, res)
    .then((isReadable) => {
      if (isReadable) return
      log.warn({ deploymentId }, 'the folder of a static site cannot be read')
      backend.unreadable()
      answerUnreadable(res)
    }, fail)
    .catch(fail)
}

export interface Site {
  /** An absolute path without links. */
  readonly folder: string
  /** True when the site's routes exist only in the browser: a page answers for paths without a file. */
  readonly fallback?: true
}

/** The answer to a path, before conditional and range headers are considered. */
type Reply =
  | { readonly status: 200 | 404; readonly file: FoundFile }
  | { readonly status: 301; readonly location: string }
  | { readonly status: 400 | 404; readonly text: string }
  | { readonly status: 503 }

/**
 * Resolves to false and sends nothing when the folder cannot be read. Rejects when a file exists but cannot be read.
 *
 * @param target the path of the request with its query
 */
async function answerSite(
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

/** Returns the status that a GET of the path would get. */
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
    // Relative links in the page start at the folder. Only one leading slash: "//host" would lead to another site.
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

interface FoundFile {
  readonly file: FileHandle
  readonly path: string
  readonly size: number
  /**
   * A strong ETag, with its quotes. Inode and change time together are unique to a file, so the ETag identifies its
   * content across releases. The modification time does not, because package managers and builds set it.
   */
  readonly etag: string
  /** The change time (ctime), which becomes `Last-Modified`. */
  readonly changed: Date
}

/** Decodes the segments of a path. Returns `null` when the path is malformed. */
function parsePath(path: string): string[] | null {
  try {
    const segments = path.split('/').filter(Boolean).map(decodeURIComponent)
    return segments.some((segment) => segment.includes('/') || segment.includes('\0')) ? null : segments
  } catch {
    return null
  }
}

/**
 * Finds the file, the index of a folder, or the page with the ending `.html`. Returns `folder` for a folder without the
 * final slash.
 *
 * @param root the real path of the served folder
 */
async function findFile(
  root: string,
  segments: readonly string[],
  isFolder: boolean,
): Promise<FoundFile | 'folder' | null> {
  if (segments.some(isHidden)) return null
  const path = join(root, ...segments)
  if (isFolder || segments.length === 0) return openFile(root, join(path, 'index.html'))
  const file = (await openFile(root, path)) ?? (await openFile(root, `${path}.html`))
  if (file !== null) return file
  const index = await openFile(root, join(path, 'index.html'))
  await index?.file.close()
  return index === null ? null : 'folder'
}

/** The errors that mean "no such file". All other errors, such as a lack of descriptors, say nothing about the site. */
const notThere: ReadonlySet<unknown> = new Set([
  'ENOENT',
  'ENOTDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'EACCES',
  'EPERM',
  'ENXIO',
])

/**
 * Returns `null` without a file, and when a symbolic link leads out of the folder or to a hidden name. The app may put
 * links in place of files at any time, so the file is checked again after it was opened.
 */
async function openFile(root: string, path: string): Promise<FoundFile | null> {
  const actual = await orNull(realpath(path))
  if (actual === null || !actual.startsWith(root + sep) || relative(root, actual).split(sep).some(isHidden)) return null
  // Opening a FIFO would wait for a writer.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await orNull(open(actual, flags))
  if (file === null) return null
  try {
    const stats = await file.stat()
    if (stats.isFile() && (await isAt(file, actual)) && (await isOwn(root, stats))) {
      return { file, path: actual, size: stats.size, etag: etagOf(stats), changed: stats.ctime }
    }
  } catch (error) {
    await file.close()
    throw error
  }
  await file.close()
  return null
}

function etagOf({ ino, size, ctimeMs }: Stats): string {
  return `"${[ino, size, Math.round(ctimeMs * 1000)].map((part) => part.toString(36)).join('-')}"`
}

/** False when a link replaced a folder of the path during the opening. */
async function isAt(file: FileHandle, path: string): Promise<boolean> {
  const actual = await readlink(`/proc/self/fd/${file.fd}`).catch((error: NodeJS.ErrnoException) => {
    // Without /proc, this is unknown.
    if (error.code === 'ENOENT') return path
    throw error
  })
  return actual === path
}

/**
 * A file with several hard links may have a name outside the site. Such a file must belong to the site's owner, like
 * everything that a build creates.
 */
async function isOwn(root: string, { nlink, uid }: Stats): Promise<boolean> {
  return nlink === 1 || uid === (await lstat(root)).uid
}

async function orNull<T>(work: Promise<T>): Promise<T | null> {
  return work.catch((error: NodeJS.ErrnoException) => {
    if (notThere.has(error.code)) return null
    throw error
  })
}

/** Names with a leading dot are private, with one exception (RFC 8615). */
function isHidden(segment: string): boolean {
  return segment.startsWith('.') && segment !== '.well-known'
}

/** Such a file is sent in one piece with the head of the answer. */
const wholeBytes = 64 * 1024
const tooShort = 'the file became shorter while it was sent'

/**
 * Sends the file, or the part that conditions and range select, and closes it. Rejects when it became shorter on the
 * way, because its head is then wrong.
 */
async function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  found: FoundFile,
  status: 200 | 404,
): Promise<void> {
  try {
    const { etag, size } = found
    const modified = found.changed.toUTCString()
    response.setHeader('etag', etag)
    response.setHeader('last-modified', modified)
    response.setHeader('cache-control', 'no-cache')
    response.setHeader('accept-ranges', 'bytes')
    response.setHeader('content-type', typeOf(found.path))
    const { method = 'GET', headers } = request
    // After a rollback the file is older than the visitor's copy, and different: only an equal time means unmodified.
    const since = headers['if-modified-since'] === modified ? modified : undefined
    const given = { ...headers, 'if-modified-since': since }
    const answer = status === 200 ? outcome(method, given, { etag, lastModified: found.changed, size }) : { status }
    if (answer.status === 304) {
      response.writeHead(304).end()
      return
    }
    if (answer.status === 412) {
      sendText(response, 412, 'Precondition Failed')
      return
    }
    if (answer.status === 416) {
      response.setHeader('content-range', `bytes */${size}`)
      sendText(response, 416, 'Range Not Satisfiable')
      return
    }
    const { start, end } = answer.status === 206 ? answer.range : { start: 0, end: size - 1 }
    if (answer.status === 206) response.setHeader('content-range', `bytes ${start}-${end}/${size}`)
    response.setHeader('content-length', end - start + 1)
    response.writeHead(answer.status)
    if (method === 'HEAD' || size === 0) response.end()
    else await sendBytes(response, found, start, end)
  } finally {
    await found.file.close()
  }
}

async function sendBytes(response: ServerResponse, { file }: FoundFile, start: number, end: number): Promise<void> {
  const length = end - start + 1
  if (length <= wholeBytes) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, start)
    if (bytesRead !== length) throw new Error(tooShort)
    response.end(buffer)
    return
  }
  const bytes = file.createReadStream({ start, end, autoClose: false })
  await pipeline(bytes, response, { end: false })
  if (bytes.bytesRead !== length) throw new Error(tooShort)
  response.end()
}

function sendText(response: ServerResponse, status: number, text: string): void {
  for (const name of ['etag', 'last-modified', 'cache-control']) if (status >= 400) response.removeHeader(name)
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`)
}

function typeOf(path: string): string {
  const ending = extname(path).slice(1).toLowerCase()
  const type = (Object.hasOwn(mimes, ending) ? mimes[ending] : undefined) ?? 'application/octet-stream'
  return /^text\/|^application\/(?:javascript|json|xml)$/.test(type) ? `${type}; charset=utf-8` : type
}

/**
 * Finds the fallback page of a site whose routes exist only in the browser: `200.html`, or else `index.html` unless the
 * site has a `404.html`. Returns `null` for a path with a file ending: a script of an earlier release must be reported
 * as missing, not answered with a page.
 *
 * @param root the real path of the served folder
 */
async function findFallback(root: string, segments: readonly string[]): Promise<FoundFile | null> {
  if (
    segments.some(isHidden) ||
    Object.hasOwn(
      mimes,
      extname(segments.at(-1) ?? '')
        .slice(1)
        .toLowerCase(),
    )
  )
    return null
  const page = await openFile(root, join(root, '200.html'))
  if (page !== null) return page
  const missing = await openFile(root, join(root, '404.html'))
  await missing?.file.close()
  return missing === null ? openFile(root, join(root, 'index.html')) : null
}
