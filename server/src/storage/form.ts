import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { Busboy, type BusboyHeaders, type BusboyInstance } from '@fastify/busboy'
import { ApiError, invalidRequest } from '../contract/errors.ts'

/** What an upload said besides the file's bytes. */
export interface UploadForm {
  /** The `filename` of the file part. */
  readonly filename: string | undefined
  /** The file part's `Content-Type`, as it came. */
  readonly type: string
  /** The text part `name`. */
  readonly name: string | undefined
}

export interface UploadFormOptions {
  readonly message: IncomingMessage
  /** How long no bytes may come. */
  readonly idleTimeoutMs: number
  /** Called with the bytes of the file part as they come. A rejection ends the reading with it. */
  readonly onFile: (bytes: AsyncIterable<Buffer>) => Promise<void>
}

/** All that is not the file: boundaries, part headers, text parts, what stands before and behind. */
export const formOverheadBytes = 1024 * 1024

const limits = { fieldNameSize: 256, fieldSize: 4096, fields: 100, headerPairs: 100, headerSize: 16 * 1024 }

/**
 * Reads multipart/form-data (RFC 7578) with exactly one file part, of any part name, as it comes.
 * Throws `invalid_request` on anything else. The rest of a refused request is left unread.
 */
export async function readUploadForm(options: UploadFormOptions): Promise<UploadForm> {
  const { message } = options
  const parser = createParser(message)
  let file: { stream: Readable; filename: string | undefined; type: string; stored: Promise<void> } | undefined
  let name: string | undefined
  let received = 0
  let taken = 0

  const { promise: ended, resolve: end, reject: fail } = Promise.withResolvers<void>()
  // Who fails first is heard; the others fail because of it.
  ended.catch(() => undefined)
  const refuse = (problem: string) => fail(invalidRequest({ field: 'file', message: problem }))
  const idle = setTimeout(() => {
    refuse(`no bytes came for ${options.idleTimeoutMs / 1000} seconds`)
  }, options.idleTimeoutMs)

  async function* counted(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
    for await (const chunk of stream) {
      taken += chunk.length
      yield chunk
    }
  }

  parser.on('file', (_part, stream, filename, encoding, type) => {
    stream.on('error', () => refuse('the part is not complete'))
    if (file !== undefined) refuse('must be one part; there are more')
    else if (!/^(7bit|8bit|binary)$/.test(encoding)) refuse('must be sent as it is, without Content-Transfer-Encoding')
    else {
      const stored = options.onFile(counted(stream))
      file = { stream, filename, type, stored }
      stored.catch(fail)
    }
  })
  parser.on('field', (part, value, _partTruncated, valueTruncated) => {
    if (part !== 'name') return
    if (valueTruncated) fail(invalidRequest({ field: 'name', message: 'is too long' }))
    if (name !== undefined) fail(invalidRequest({ field: 'name', message: 'must be given once' }))
    name = value
  })
  parser.on('fieldsLimit', () => refuse(`there are more than ${limits.fields} other parts`))
  parser.on('error', () => refuse('the multipart body is not well-formed'))
  parser.on('finish', end)

  const onData = (chunk: Buffer) => {
    idle.refresh()
    received += chunk.length
    if (received - taken > formOverheadBytes) refuse(`there are more than ${formOverheadBytes} bytes besides the file`)
  }
  const onGone = () => {
    if (!message.readableEnded) fail(new ApiError('invalid_request', 'The upload was broken off.', { field: 'file' }))
  }
  message.on('data', onData)
  // Stays: a connection may break at any time.
  message.on('error', onGone)
  message.on('close', onGone)
  if (message.destroyed) onGone()
  message.pipe(parser)
  try {
    await ended
    await file?.stored
  } finally {
    clearTimeout(idle)
    message.unpipe(parser)
    message.off('data', onData)
    message.off('close', onGone)
    parser.destroy()
    file?.stream.destroy()
    await file?.stored.catch(() => undefined)
  }
  if (file === undefined) throw invalidRequest({ field: 'file', message: 'is required: one part with a file name' })
  return { filename: file.filename, type: file.type, name }
}

function createParser(message: IncomingMessage): BusboyInstance {
  const type = message.headers['content-type'] ?? ''
  try {
    if (!/^multipart\/form-data *;.*boundary="?[^"]/i.test(type)) throw new Error('another media type')
    return new Busboy({ headers: message.headers as BusboyHeaders, preservePath: true, limits })
  } catch {
    throw invalidRequest({ field: 'content-type', message: 'must be multipart/form-data with a boundary' })
  }
}
