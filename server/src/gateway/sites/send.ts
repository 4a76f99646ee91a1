import type { IncomingMessage, ServerResponse } from 'node:http'
import { extname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { mimes } from 'mrmime'
import { outcome } from '../../platform/conditional-requests.ts'
import type { FoundFile } from './files.ts'

/** Up to this size a file is read at once, and sent in one piece with the head of its answer. */
const wholeBytes = 64 * 1024
const tooShort = 'the file became shorter while it was sent'

/**
 * Sends a file, or what the conditions and the range of the request leave of it. Closes the file. Rejects when the file
 * became shorter in the meantime: then the answer is not what its head says.
 */
export async function sendFile(
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
    // After a rollback the file is older than the copy of the visitor, and another one: only the same time counts.
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

export function sendText(response: ServerResponse, status: number, text: string): void {
  for (const name of ['etag', 'last-modified', 'cache-control']) if (status >= 400) response.removeHeader(name)
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`)
}

function typeOf(path: string): string {
  const ending = extname(path).slice(1).toLowerCase()
  const type = (Object.hasOwn(mimes, ending) ? mimes[ending] : undefined) ?? 'application/octet-stream'
  return /^text\/|^application\/(?:javascript|json|xml)$/.test(type) ? `${type}; charset=utf-8` : type
}
