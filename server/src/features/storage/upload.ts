import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type Readable, Transform } from 'node:stream'
import { Busboy, type BusboyInstance } from '@fastify/busboy'
import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import { hasInvisible } from '../../contract/invisible.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import { watchBody } from '../../http/bodies.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Background } from '../../platform/background.ts'
import type { RequestTransactions } from '../../platform/database/request-transactions.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { describeDiskError } from '../../platform/disk/free-space.ts'
import { newId } from '../../platform/ids.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Plans } from '../../platform/plans.ts'
import type { FileAddresses } from './addresses.ts'
import { declaredType, detectedType, headBytes } from './media-type.ts'
import type { PendingFiles, PendingUpload } from './pending.ts'
import { type Limits, limitsOf, tooLarge, type Usage } from './reservations.ts'
import { insertFile } from './rows.ts'
import type { FileStore, FileWriter } from './store.ts'

export interface FilesDependencies {
  readonly database: Database
  readonly transact: RequestTransactions
  readonly store: FileStore
  readonly pending: PendingFiles
  readonly addresses: FileAddresses
  readonly plans: Plans
  readonly background: Background
  readonly logger: Logger
  readonly idleTimeoutMs: number
  /** Keeps the project from being deleted until the transaction ends; false when it is no longer active. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
  readonly announceUpload: (transaction: Transaction, uploaded: UploadedFile) => Promise<void>
}

export interface UploadedFile {
  readonly accountId: string
  readonly projectId: string
  readonly fileId: string
  readonly name: string
  readonly size: number
  readonly url: string
}

type Answer = ResponseBody<'storage.upload'>
type UploadParts = Omit<FilesDependencies, 'background'>

export interface Upload {
  readonly project: TenantProject
  readonly message: IncomingMessage
  readonly signal: AbortSignal
  /** Records in the audit log that the file of this id was created. */
  readonly audit: (transaction: Transaction, fileId: string) => Promise<void>
}

/**
 * Stores a file: first its bytes and, once they are safe in the store, its row with the event and the project's usage.
 * No transaction is open while bytes arrive. Throws `invalid_request` when the body is not a form with one file, or the
 * file exceeds the project's limits.
 */
export async function uploadFile(
  parts: UploadParts,
  usageOf: (projectId: string) => Promise<Usage>,
  upload: Upload,
): Promise<Answer> {
  const limits = limitsOf(parts.plans, upload.project.plan)
  const { stored, reserved } = await usageOf(upload.project.id)
  const free = limits.quotaBytes - stored - reserved
  const id = newId('file')
  const { id: projectId, accountId } = upload.project
  const uploading = { id, projectId, accountId, quotaBytes: limits.quotaBytes }
  try {
    return await parts.pending.track(uploading, (pending) => storeFile(parts, upload, { id, pending, limits, free }))
  } catch (error) {
    const described = describeDiskError(error)
    if (described !== error) parts.logger.error({ err: error }, 'the disk for files is full')
    throw described
  }
}

interface IncomingFile {
  readonly id: string
  readonly pending: PendingUpload
  readonly limits: Limits
  readonly free: number
}

async function storeFile(parts: UploadParts, upload: Upload, incoming: IncomingFile): Promise<Answer> {
  const { id, pending, limits, free } = incoming
  const { message, signal } = upload
  const file = await receiveFile({
    message,
    async create() {
      const writer = await parts.store.create(id)
      return { ...writer, finish: () => pending.inTurn(writer.finish) }
    },
    reserve: pending.reserve,
    free,
    fileBytes: limits.fileBytes,
    idleTimeoutMs: parts.idleTimeoutMs,
  })
  // The client cannot receive the id any more, so nobody would know about the file.
  if (signal.aborted)
    throw new ApiError('invalid_request', 'The connection was closed before the upload was complete.', {
      field: 'file',
    })
  return insertRow(parts, upload, incoming, file)
}

function insertRow(
  parts: UploadParts,
  { project, audit }: Upload,
  { id, pending, limits }: IncomingFile,
  { name, size, ...facts }: ReceivedFile,
): Promise<Answer> {
  return parts.transact(project.accountId, async (transaction) => {
    if (!(await parts.holdProject(transaction, project.id))) throw notFound()
    await pending.complete(transaction)
    const { url, token } = parts.addresses.create(id)
    const row = { id, project_id: project.id, name, size, ...facts, token }
    const { uploaded_at } = await insertFile(transaction, row, limits.quotaBytes)
    await parts.announceUpload(transaction, {
      accountId: project.accountId,
      projectId: project.id,
      fileId: id,
      name,
      size,
      url,
    })
    await audit(transaction, id)
    return { id, name, url, size, uploaded_at: uploaded_at.toISOString() }
  })
}

interface ReceivedFile {
  readonly name: string
  readonly size: number
  readonly sha256: Buffer
  readonly declared_type: string | null
  readonly detected_type: string | null
}

/**
 * Streams an upload's single file into the store. Throws `invalid_request` on a malformed body, and as soon as the file
 * is known to exceed `fileBytes` or the project's room. The caller removes the stored bytes.
 */
async function receiveFile(options: {
  readonly message: IncomingMessage
  /** Begins the file in the store. Called once, after space is reserved for the first bytes. */
  readonly create: () => Promise<FileWriter>
  readonly reserve: PendingUpload['reserve']
  readonly free: number
  readonly fileBytes: number
  readonly idleTimeoutMs: number
}): Promise<ReceivedFile> {
  const { message, create, free, fileBytes, idleTimeoutMs } = options
  const length = Number(message.headers['content-length'] ?? Number.NaN)
  // Content-Length includes the form, so this check refuses only files that are certainly too large.
  const sizes = {
    least: Math.max(0, (length || 0) - formOverheadBytes),
    most: Math.min(fileBytes, length || fileBytes),
  }
  const most = Math.min(fileBytes, free)
  if (sizes.least > most) throw tooLarge(most)

  const hold = holdSpace(options, sizes)
  const hash = createHash('sha256')
  const head: Buffer[] = []
  let size = 0
  let file: FileWriter | undefined
  const store = async (bytes: AsyncIterable<Buffer>) => {
    await hold(0)
    for await (const chunk of bytes) {
      await hold(size + chunk.length)
      file ??= await create()
      if (size < headBytes) head.push(chunk)
      size += chunk.length
      const written = file.write(chunk)
      hash.update(chunk)
      await written
    }
    file ??= await create()
  }
  try {
    const form = await readUploadForm({ message, idleTimeoutMs, onFile: store })
    const name = fileName(form.name ?? unescapeFormName(form.filename ?? ''))
    await file?.finish()
    return {
      name,
      size,
      sha256: hash.digest(),
      declared_type: declaredType(form.type),
      detected_type: detectedType(Buffer.concat(head).subarray(0, headBytes)),
    }
  } catch (error) {
    await file?.abort()
    throw error
  }
}

/**
 * Returns a function that reserves space for a file to grow to a number of bytes, and throws `invalid_request` when
 * there is no space. `sizes` has the bounds of its size that are known in advance.
 */
function holdSpace(
  { reserve, fileBytes }: Pick<Parameters<typeof receiveFile>[0], 'reserve' | 'fileBytes'>,
  sizes: { readonly least: number; readonly most: number },
): (bytes: number) => Promise<void> {
  let held = -1
  return async (bytes) => {
    const needed = Math.min(bytes, fileBytes)
    if (needed > held) {
      const least = Math.max(needed, sizes.least)
      const granted = await reserve({ least, most: Math.max(least, sizes.most) })
      if (granted < least) throw tooLarge(Math.min(fileBytes, granted))
      held = granted
    }
    if (bytes > fileBytes) throw tooLarge(fileBytes)
  }
}

export interface UploadForm {
  readonly filename: string | undefined
  readonly type: string
  readonly name: string | undefined
}

export interface UploadFormOptions {
  readonly message: IncomingMessage
  readonly idleTimeoutMs: number
  /** Called with the bytes of the file part as they arrive. If it rejects, reading ends with that error. */
  readonly onFile: (bytes: AsyncIterable<Buffer>) => Promise<void>
}

/** The most bytes around the file: boundaries, part headers, text parts, preamble and epilogue. */
const formOverheadBytes = 1024 * 1024

/** `parts` also counts parts without a name. */
const limits = { fieldNameSize: 256, fieldSize: 4096, parts: 100, headerPairs: 100, headerSize: 16 * 1024 }

/**
 * Reads multipart/form-data (RFC 7578) with exactly one file part, under any part name, as it arrives. Throws
 * `invalid_request` on any other body, and leaves the rest of a refused request unread.
 */
async function readUploadForm({ message, idleTimeoutMs, onFile }: UploadFormOptions): Promise<UploadForm> {
  const parser = createParser(message)
  const outcome = Promise.withResolvers<void>()
  // Only the first error counts; it causes the later ones.
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
  readonly stored: Promise<void>
}

interface Parts {
  file(): FilePart | undefined
  name(): string | undefined
  fileBytes(): number
}

/** Collects the parser's parts. Settles `outcome` when the form ends or is refused. */
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
 * Passes a form on until it has too many parts. The parts are counted before the parser gets them: the parser takes ten
 * thousand times as long for a part as for a byte, and cannot be stopped within one chunk.
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
      // The last delimiter ends the form.
      if (seen <= limits.parts + 1) return done(null, chunk)
      fail(`there are more than ${limits.parts} parts`)
      done()
    },
  })
}

/** Returns a function that fails when more bytes surround the file than a form needs. */
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
 * The boundary in a header. It allows more characters than RFC 2046, section 5.1.1, because some programs send
 * boundaries such as `*****`; each character may stand between quotes.
 */
const boundaryForm =
  /^multipart\/form-data[ \t]*;(?:.*;)?[ \t]*boundary[ \t]*=[ \t]*(?:"([^"\\\p{C}]{1,200})"|([^\s";\\\p{C}]{1,200}))[ \t]*(?:;|$)/iu

/** Returns the boundary of the form; empty when there is no usable boundary. */
function boundaryOf({ headers }: IncomingMessage): string {
  const [, quoted, plain = ''] = boundaryForm.exec(headers['content-type'] ?? '') ?? []
  return quoted ?? plain
}

function createParser(message: IncomingMessage): BusboyInstance {
  const boundary = boundaryOf(message)
  if (boundary === '') {
    throw invalidRequest({ field: 'content-type', message: 'must be multipart/form-data with a boundary' })
  }
  // The parser reads headers by its rules, and could find a different boundary from the counted one.
  const headers = { ...message.headers, 'content-type': `multipart/form-data; boundary="${boundary}"` }
  return new Busboy({ headers, preservePath: true, limits })
}

/** The longest file name in common file systems, in bytes. */
const longestBytes = 255

const controls = /\p{Cc}/u

/**
 * Returns the name to store for an upload's file name: without folders (RFC 7578 §4.2) and trimmed. Throws
 * `invalid_request` on `name` when it is empty, `.` or `..`, contains control or invisible characters or bytes that are
 * not UTF-8, or has more than 255 bytes.
 */
function fileName(given: string): string {
  const name = given.slice(Math.max(given.lastIndexOf('/'), given.lastIndexOf('\\')) + 1)
  if (!name.isWellFormed()) throw refused('must be well-formed Unicode')
  if (controls.test(name)) throw refused('must not contain control characters')
  // The parser replaces bytes that are not UTF-8 with this character.
  if (name.includes('\ufffd')) throw refused('must be UTF-8')
  const trimmed = name.trim()
  if (hasInvisible(trimmed)) throw refused('must not contain characters that nobody sees or that change its direction')
  if (trimmed === '') throw refused('is required: give the file part a file name, or add a text part "name"')
  if (trimmed === '.' || trimmed === '..') throw refused('must be the name of a file')
  if (Buffer.byteLength(trimmed) > longestBytes) throw refused(`must be at most ${longestBytes} bytes of UTF-8`)
  return trimmed
}

/** Decodes the `filename` of a part as browsers and `fetch` encode it: they escape only the quote and line breaks. */
function unescapeFormName(filename: string): string {
  return filename.replace(/%(22|0d|0a)/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
}

function refused(message: string): Error {
  return invalidRequest({ field: 'name', message })
}
