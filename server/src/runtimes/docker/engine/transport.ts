import type { IncomingMessage } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { request } from '../../../platform/machine/http.ts'
import { readLastBytes } from '../../../platform/machine/last-bytes.ts'
import { EngineError, noAnswer, tooLong } from './error.ts'

/** One request to the engine. */
export interface EngineRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'HEAD'
  /** The parts of the path, which may hold any characters: `['containers', id, 'json']`. */
  readonly path: readonly string[]
  /** Objects are sent as JSON, as filters are; a parameter with an array is repeated. */
  readonly query?: Readonly<Record<string, string | number | boolean | object | undefined>>
  /** A header with an array is repeated. */
  readonly headers?: Readonly<Record<string, string | string[]>>
  /** Sent as JSON. */
  readonly body?: object
  /** Sent as it is, in place of a body: a tar archive. */
  readonly upload?: Readable
  readonly signal?: AbortSignal
  /** Milliseconds until the answer is there: all of it for a call, its head for a stream. Without limit at 0. */
  readonly timeoutMs?: number
  /** The most bytes of the answer to a call. */
  readonly mostBytes?: number
}

/** Longer than the engine needs for any call of which nobody knows that it takes long. */
const defaultTimeoutMs = 60_000

/** Messages of the engine are short. */
const mostErrorBytes = 64_000
/** Lists of containers are the longest answers. Each container has the labels of its image, see `mostConfigBytes`. */
const mostAnswerBytes = 128_000_000

/** Names a request in messages, without its query: `GET containers/abc/json`. */
export const nameOf = ({ method, path }: EngineRequest): string => `${method} ${path.join('/')}`

/**
 * Sends a request and resolves with the answer once its head is there. The caller reads or destroys it.
 *
 * @param version the version of the API; null for the one call that asks for it
 * @throws EngineError for an answer that is no success, and when there is none
 */
export async function send(socketPath: string, version: string | null, asked: EngineRequest): Promise<IncomingMessage> {
  const { answer, end } = await answerTo(socketPath, version, asked)
  end()
  return answer
}

/**
 * Sends a request and reads all of the answer, within one deadline.
 *
 * @throws EngineError as `send`, and for an answer that is too long
 */
export async function receive(socketPath: string, version: string | null, asked: EngineRequest): Promise<string> {
  const { mostBytes = mostAnswerBytes } = asked
  const { answer, end } = await answerTo(socketPath, version, asked)
  let bytes: Buffer
  try {
    bytes = await readSome(answer, mostBytes + 1)
  } catch (error) {
    asked.signal?.throwIfAborted()
    throw new EngineError(nameOf(asked), null, 'the answer ended early', { cause: error })
  } finally {
    end()
  }
  if (bytes.length > mostBytes) throw new EngineError(nameOf(asked), tooLong, 'the answer is too long')
  return bytes.toString('utf8')
}

/** @returns with `end`, which ends the deadline */
async function answerTo(
  socketPath: string,
  version: string | null,
  asked: EngineRequest,
): Promise<{ readonly answer: IncomingMessage; readonly end: () => void }> {
  const { sent, answered, end } = begin(socketPath, version, asked)
  try {
    const answer = await answered
    return { answer: isSuccess(answer) ? answer : await refuse(asked, answer), end }
  } catch (error) {
    end()
    sent.destroy()
    throw asEngineError(asked, error)
  }
}

/** As `send`, for calls whose connection becomes the input and output of a program. */
export async function sendUpgrade(socketPath: string, version: string, asked: EngineRequest): Promise<Duplex> {
  const headers = { upgrade: 'tcp', ...asked.headers, connection: 'Upgrade' }
  const { sent, answered, end } = begin(socketPath, version, { ...asked, headers })
  const upgraded = new Promise<Duplex>((resolve) => {
    sent.once('upgrade', (_, socket, head) => {
      if (head.length > 0) socket.unshift(head)
      resolve(socket)
    })
  })
  const refused = answered.then((answer) => refuse(asked, answer))
  // The connection may be upgraded first.
  refused.catch(() => undefined)
  try {
    return await Promise.race([upgraded, refused])
  } catch (error) {
    sent.destroy()
    throw asEngineError(asked, error)
  } finally {
    end()
  }
}

/** @returns with `end`, which ends the deadline */
function begin(socketPath: string, version: string | null, asked: EngineRequest) {
  const { method, path, query = {}, headers, body, upload, timeoutMs = defaultTimeoutMs } = asked
  asked.signal?.throwIfAborted()
  const type = upload !== undefined ? 'application/x-tar' : body !== undefined ? 'application/json' : null
  const sent = request({
    socketPath,
    method,
    path: pathOf(version, path, query),
    headers: { ...(type !== null && { 'content-type': type }), ...headers },
    // An engine that was started again has forgotten connections that were kept.
    agent: false,
  })
  // The engine may refuse an upload before it has read all of it.
  sent.once('socket', readLastBytes)
  const timer = timeoutMs === 0 ? undefined : setTimeout(() => sent.destroy(new Error(noAnswer)), timeoutMs)
  // Also ends an answer that is being read.
  const abort = () => sent.destroy(new Error('aborted'))
  asked.signal?.addEventListener('abort', abort, { once: true })
  sent.once('close', () => {
    asked.signal?.removeEventListener('abort', abort)
    upload?.destroy()
  })
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve)
    sent.on('error', reject)
  })
  // An upload that has failed before does not say so again.
  if (upload?.errored) sent.destroy(upload.errored)
  else if (upload === undefined) sent.end(body === undefined ? undefined : JSON.stringify(body))
  else upload.once('error', (error) => sent.destroy(error)).pipe(sent)
  return { sent, answered, end: () => clearTimeout(timer) }
}

function pathOf(version: string | null, path: readonly string[], query: NonNullable<EngineRequest['query']>): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one === undefined) continue
      parameters.append(name, typeof one === 'object' ? JSON.stringify(one) : String(one))
    }
  }
  const prefix = version === null ? '' : `/v${version}`
  const text = parameters.toString()
  return `${prefix}/${path.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`
}

/** The engine answers 304 when a container was started or stopped before, and redirects paths with `..`, which are followed nowhere. */
const isSuccess = ({ statusCode = 0 }: IncomingMessage): boolean => statusCode < 300 || statusCode === 304

/** @throws EngineError with the message of an answer */
async function refuse(asked: EngineRequest, answer: IncomingMessage): Promise<never> {
  const text = await readSome(answer, mostErrorBytes).then(String, () => '')
  throw new EngineError(nameOf(asked), answer.statusCode ?? 0, messageOf(text))
}

function messageOf(text: string): string {
  try {
    const parsed: unknown = JSON.parse(text)
    if (typeof parsed === 'object' && parsed !== null && 'message' in parsed) return String(parsed.message)
  } catch {
    // A proxy, or an engine that failed in the middle of its answer.
  }
  return text.trim()
}

/** Reads an answer, at least as far as `most` bytes if it is longer. */
async function readSome(answer: IncomingMessage, most: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer) {
    chunks.push(chunk as Buffer)
    bytes += (chunk as Buffer).length
    if (bytes >= most) break
  }
  return Buffer.concat(chunks)
}

/** An abort by the caller is passed on as its reason. */
function asEngineError(asked: EngineRequest, error: unknown): unknown {
  if (asked.signal?.aborted === true) return asked.signal.reason
  if (error instanceof EngineError) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined
  return new EngineError(nameOf(asked), null, code ?? (error instanceof Error ? error.message : String(error)), {
    cause: error,
  })
}
