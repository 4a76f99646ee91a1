import type { IncomingMessage } from 'node:http'
import { type Readable, Transform } from 'node:stream'
import { Busboy, type BusboyInstance } from '@fastify/busboy'
import { invalidRequest } from '../../contract/errors.ts'
import { watchBody } from '../../http/watch-body.ts'

/** The fields of an upload besides the file's bytes. */
export interface UploadForm {
  /** The `filename` of the file part. */
  readonly filename: string | undefined
  /** The file part's `Content-Type`, as it was sent. */
  readonly type: string
  /** The text part `name`. */
  readonly name: string | undefined
}

export interface UploadFormOptions {
  readonly message: IncomingMessage
  /** The longest pause between bytes. */
  readonly idleTimeoutMs: number
  /** Called with the bytes of the file part as they arrive. When it rejects, reading ends with that error. */
  readonly onFile: (bytes: AsyncIterable<Buffer>) => Promise<void>
}

/** How many bytes may surround the file: boundaries, part headers, text parts, preamble and epilogue. */
export const formOverheadBytes = 1024 * 1024

/** `parts` also counts parts without a name. */
const limits = { fieldNameSize: 256, fieldSize: 4096, parts: 100, headerPairs: 100, headerSize: 16 * 1024 }

/**
 * Reads multipart/form-data (RFC 7578) with exactly one file part, under any part name, as it arrives.
 * Throws `invalid_request` on anything else. The rest of a refused request is left unread.
 */
export async function readUploadForm({ message, idleTimeoutMs, onFile }: UploadFormOptions): Promise<UploadForm> {
  const parser = createParser(message)
  const outcome = Promise.withResolvers<void>()
  // The first error counts; later ones follow from it.
  outcome.promise.catch(() => undefined)
  const parts = collectParts(parser, onFile, outcome)
  const fail = (problem: string) => outcome.reject(invalidRequest({ field: 'file', message: problem }))
  const stopWatching = watchBody(message, { idleTimeoutMs, onBytes: limitOverhead(parts.fileBytes, fail), fail })
  const limited = limitParts(boundaryOf(message), fail)
  message.pipe(limited).pipe(parser)
  try {
    await outcome.promise
    await parts.file()?.stored
  } finally {
    stopWatching()
    message.unpipe(limited)
    limited.destroy()
    parser.destroy()
    parts.file()?.stream.destroy()
    await parts.file()?.stored.catch(() => undefined)
  }
  const file = parts.file()
  if (file === undefined) throw invalidRequest({ field: 'file', message: 'is required: one part with a file name' })
  return { filename: file.filename, type: file.type, name: parts.name() }
}

interface FilePart {
  readonly stream: Readable
  readonly filename: string | undefined
  readonly type: string
  /** Settles as `onFile` does. */
  readonly stored: Promise<void>
}

interface Parts {
  file(): FilePart | undefined
  name(): string | undefined
  /** Returns how many bytes of the file `onFile` has taken. */
  fileBytes(): number
}

/** Collects the parser's parts, and settles `outcome` when the form ends or is refused. */
function collectParts(
  parser: BusboyInstance,
  onFile: UploadFormOptions['onFile'],
  outcome: PromiseWithResolvers<void>,
): Parts {
  let file: FilePart | undefined
  let name: string | undefined
  let taken = 0
  const refuse = (message: string) => outcome.reject(invalidRequest({ field: 'file', message }))
  const refuseName = (message: string) => outcome.reject(invalidRequest({ field: 'name', message }))

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
      const stored = onFile(counted(stream))
      file = { stream, filename, type, stored }
      stored.catch(outcome.reject)
    }
  })
  parser.on('field', (part, value, _partTruncated, valueTruncated) => {
    if (part !== 'name') return
    if (valueTruncated) refuseName('is too long')
    if (name !== undefined) refuseName('must be given once')
    name = value
  })
  parser.on('partsLimit', () => refuse(`there are more than ${limits.parts} parts`))
  parser.on('error', () => refuse('the multipart body is not well-formed'))
  parser.on('finish', outcome.resolve)
  return { file: () => file, name: () => name, fileBytes: () => taken }
}

/**
 * Passes on a form until it has too many parts. They are counted before the parser sees them: it takes ten thousand times as long for a
 * part as for a byte, and cannot be stopped within what it is given at once.
 */
function limitParts(boundary: string, fail: (problem: string) => void): Transform {
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
  let seen = 0
  let rest = Buffer.alloc(0)
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const bytes = Buffer.concat([rest, chunk])
      for (let at = bytes.indexOf(delimiter); at >= 0; at = bytes.indexOf(delimiter, at + delimiter.length)) seen += 1
      rest = bytes.subarray(Math.max(0, bytes.length - delimiter.length + 1))
      // The last one is the end of the form.
      if (seen <= limits.parts + 1) return done(null, chunk)
      fail(`there are more than ${limits.parts} parts`)
      done()
    },
  })
}

/** Returns a function that fails once more bytes have come besides the file than a form needs. */
function limitOverhead(fileBytes: () => number, fail: (problem: string) => void): (count: number) => void {
  let received = 0
  return (count) => {
    received += count
    if (received - fileBytes() > formOverheadBytes) {
      fail(`there are more than ${formOverheadBytes} bytes besides the file`)
    }
  }
}

/**
 * A boundary in a header. More characters are taken than RFC 2046, section 5.1.1, allows, because programs send such as `*****`; each of them
 * may stand between quotes.
 */
const boundaryForm =
  /^multipart\/form-data[ \t]*;(?:.*;)?[ \t]*boundary[ \t]*=[ \t]*(?:"([^"\\\p{C}]{1,200})"|([^\s";\\\p{C}]{1,200}))[ \t]*(?:;|$)/iu

/** Returns the boundary of the form; empty for none that can be used. */
function boundaryOf({ headers }: IncomingMessage): string {
  const [, quoted, plain = ''] = boundaryForm.exec(headers['content-type'] ?? '') ?? []
  return quoted ?? plain
}

function createParser(message: IncomingMessage): BusboyInstance {
  const boundary = boundaryOf(message)
  if (boundary === '') {
    throw invalidRequest({ field: 'content-type', message: 'must be multipart/form-data with a boundary' })
  }
  // The parser reads headers by rules of its own, and would find another boundary than the one whose parts are counted.
  const headers = { ...message.headers, 'content-type': `multipart/form-data; boundary="${boundary}"` }
  return new Busboy({ headers, preservePath: true, limits })
}
