/**
 * A program that serves one folder of files: `node static-server.js <folder>… <port>`. Of several folders it serves the
 * first that has an index.html, because only a build shows where it puts a site. It listens on loopback, for the
 * gateway. It is bundled into a single file, so that the users of apps can read it.
 */
import { existsSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { findFile, openFile, parsePath } from './files.ts'
import { sendFile, sendText } from './send.ts'

const folders = process.argv.slice(2)
const port = folders.pop()
if (folders.length === 0) {
  console.error('usage: static-server <folder>… <port>')
  process.exit(2)
}
const folder = folders.length === 1 ? folders[0] : folders.find((name) => existsSync(join(name, 'index.html')))
if (folder === undefined) {
  const names = folders.map((name) => `${name}/`).join(', ')
  console.error(`The build made no index.html in ${names}. If this is no static site, say how the app starts.`)
  process.exit(1)
}
const root = await realpath(folder)

/** Connections that have sent no request yet: closing the server leaves them open. */
const unused = new Set<Socket>()

const server = createServer((request, response) => {
  unused.delete(request.socket)
  // Once the server closes, a connection has nothing more to wait for.
  response.once('close', () => setImmediate(() => server.listening || server.closeIdleConnections()))
  answer(request, response).catch((error: unknown) => {
    // A visitor who disconnects early is not an error of this server.
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

  const found = await findFile(root, segments, path.endsWith('/'))
  if (found === 'folder') {
    // Relative links in the page start at the folder. One leading slash only: "//host" would lead to another site.
    const location = `/${segments.map(encodeURIComponent).join('/')}/${queryAt === -1 ? '' : target.slice(queryAt)}`
    response.setHeader('location', location)
    return sendText(response, 301, 'Moved Permanently')
  }
  if (found !== null) return sendFile(request, response, found, 200)
  const page = await openFile(root, join(root, '404.html'))
  return page === null ? sendText(response, 404, 'Not Found') : sendFile(request, response, page, 404)
}
