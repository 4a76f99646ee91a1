/**
 * A program of its own that serves one folder of files: `node static-server.js <folder>… <port>`. Of several folders it
 * serves the first that has an index.html, because only a build tells where it puts a site.
 * It listens on loopback, for the gateway. Bundled into a single file, so that apps' users can read it.
 */
import { constants, existsSync } from 'node:fs'
import { type FileHandle, open, realpath } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { extname, join, relative, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { mimes } from 'mrmime'

interface Found {
  readonly file: FileHandle
  readonly path: string
  readonly size: number
  readonly modified: Date
}

const folders = process.argv.slice(2)
const port = folders.pop()
if (folders.length === 0) {
  console.error('usage: static-server <folder>… <port>')
  process.exit(2)
}
const folder = folders.length === 1 ? folders[0] : folders.find((name) => existsSync(join(name, 'index.html')))
if (folder === undefined) {
  const places = folders.map((name) => `${name}/`).join(', ')
  console.error(`The build made no index.html in ${places}. If this is no static site, say how the app starts.`)
  process.exit(1)
}
const root = await realpath(folder)

/** Connections that have not asked for anything yet: closing the server leaves them open. */
const unused = new Set<Socket>()

const server = createServer((request, response) => {
  unused.delete(request.socket)
  // Once the server closes, a connection has nothing more to wait for.
  response.once('close', () => setImmediate(() => server.listening || server.closeIdleConnections()))
  answer(request, response).catch((error: unknown) => {
    // A visitor who leaves early is no error of ours.
    if (!response.destroyed) console.error(error)
    if (response.headersSent) response.destroy()
    else sendText(response, 500, 'Internal Server Error')
  })
})
// Longer than a gateway keeps its connections, so that it never meets one that is just closing.
server.keepAliveTimeout = 75_000
server.listen(Number(port), '127.0.0.1', () => console.log(`serving ${folder} on 127.0.0.1:${port}`))
server.on('connection', (socket) => {
  unused.add(socket)
  socket.once('close', () => unused.delete(socket))
})
process.once('SIGTERM', () => {
  server.close()
  for (const socket of unused) socket.destroy()
})

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD')
    return sendText(response, 405, 'Method Not Allowed')
  }
  const target = request.url ?? '/'
  const queryAt = target.indexOf('?')
  const path = queryAt === -1 ? target : target.slice(0, queryAt)
  const segments = parsePath(path)
  if (segments === null) return sendText(response, 400, 'Bad Request')

  const found = await find(segments, path.endsWith('/'))
  if (found === 'folder') {
    // Relative links in the page count from the folder. One leading slash only: "//host" would lead to another site.
    const location = `/${segments.map(encodeURIComponent).join('/')}/${queryAt === -1 ? '' : target.slice(queryAt)}`
    response.setHeader('location', location)
    return sendText(response, 301, 'Moved Permanently')
  }
  if (found !== null) return sendFile(request, response, found, 200)
  const page = await openFile(join(root, '404.html'))
  return page === null ? sendText(response, 404, 'Not Found') : sendFile(request, response, page, 404)
}

/** The decoded segments of a path; `null` when it is malformed. */
function parsePath(path: string): string[] | null {
  try {
    const segments = path.split('/').filter(Boolean).map(decodeURIComponent)
    return segments.some((segment) => segment.includes('/') || segment.includes('\0')) ? null : segments
  } catch {
    return null
  }
}

/** The file for a path: itself, the index of a folder, or the page whose ending is left out. */
async function find(segments: readonly string[], isFolder: boolean): Promise<Found | 'folder' | null> {
  if (segments.some(isHidden)) return null
  const path = join(root, ...segments)
  if (isFolder || segments.length === 0) return openFile(join(path, 'index.html'))
  const file = (await openFile(path)) ?? (await openFile(`${path}.html`))
  if (file !== null) return file
  const index = await openFile(join(path, 'index.html'))
  await index?.file.close()
  return index === null ? null : 'folder'
}

/** `null` when there is no such file, or a symbolic link leads out of the folder or to something hidden. */
async function openFile(path: string): Promise<Found | null> {
  const actual = await realpath(path).catch(() => null)
  if (actual === null || !actual.startsWith(root + sep) || relative(root, actual).split(sep).some(isHidden)) return null
  // Not blocking, because a FIFO would wait for a writer.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(actual, flags).catch(() => null)
  if (file === null) return null
  const stats = await file.stat()
  if (stats.isFile()) return { file, path: actual, size: stats.size, modified: stats.mtime }
  await file.close()
  return null
}

/** Names with a leading dot are private, `..` among them; RFC 8615 makes one exception. */
function isHidden(segment: string): boolean {
  return segment.startsWith('.') && segment !== '.well-known'
}

async function sendFile(request: IncomingMessage, response: ServerResponse, found: Found, status: 200 | 404) {
  try {
    const etag = `"${found.size.toString(16)}-${found.modified.getTime().toString(16)}"`
    const modified = found.modified.toUTCString()
    response.setHeader('etag', etag)
    response.setHeader('last-modified', modified)
    response.setHeader('cache-control', 'no-cache')
    response.setHeader('accept-ranges', 'bytes')
    response.setHeader('content-type', typeOf(found.path))
    const isFresh = status === 200 && matches(request, etag, found.modified)
    if (isFresh) {
      response.writeHead(304).end()
      return
    }
    const { 'if-range': ifRange, range: wanted } = request.headers
    const allowed = status === 200 && (ifRange === undefined || ifRange === etag || ifRange === modified)
    const range = allowed && wanted !== undefined ? parseRange(wanted, found.size) : null
    if (range === 'unsatisfiable') {
      response.setHeader('content-range', `bytes */${found.size}`)
      sendText(response, 416, 'Range Not Satisfiable')
      return
    }
    const { start, end } = range ?? { start: 0, end: found.size - 1 }
    if (range !== null) response.setHeader('content-range', `bytes ${start}-${end}/${found.size}`)
    response.setHeader('content-length', end - start + 1)
    response.writeHead(range === null ? status : 206)
    if (request.method === 'HEAD' || found.size === 0) response.end()
    else await pipeline(found.file.createReadStream({ start, end, autoClose: false }), response)
  } finally {
    await found.file.close()
  }
}

/** RFC 9110, section 13: `If-None-Match`, or else `If-Modified-Since`. */
function matches(request: IncomingMessage, etag: string, modified: Date): boolean {
  const { 'if-none-match': tags, 'if-modified-since': since } = request.headers
  if (tags !== undefined)
    return tags.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag)
  return since !== undefined && Math.floor(modified.getTime() / 1000) * 1000 <= Date.parse(since)
}

/** RFC 9110, section 14: one range of bytes. Several, or what is no range at all, count as none asked for. */
function parseRange(header: string, size: number): { start: number; end: number } | 'unsatisfiable' | null {
  const [, first = '', last = ''] = /^bytes=\s*(\d*)-(\d*)\s*$/.exec(header) ?? []
  if (first === '' && last === '') return null
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size - 1 }
  }
  if (last !== '' && Number(last) < Number(first)) return null
  if (Number(first) >= size) return 'unsatisfiable'
  return { start: Number(first), end: last === '' ? size - 1 : Math.min(Number(last), size - 1) }
}

function typeOf(path: string): string {
  const ending = extname(path).slice(1).toLowerCase()
  const type = (Object.hasOwn(mimes, ending) ? mimes[ending] : undefined) ?? 'application/octet-stream'
  return /^text\/|^application\/(?:javascript|json|xml)$/.test(type) ? `${type}; charset=utf-8` : type
}

function sendText(response: ServerResponse, status: number, text: string): void {
  for (const name of ['etag', 'last-modified', 'cache-control']) if (status >= 400) response.removeHeader(name)
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`)
}
