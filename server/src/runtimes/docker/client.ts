import type { IncomingMessage } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from '../../platform/machine/http.ts'
import { readLastBytes } from '../../platform/machine/last-bytes.ts'
import { EngineError, isAway, isSilent, noAnswer, tooLong } from './errors.ts'

/** A Docker engine at a socket of this machine. Every method throws an `EngineError`, or the reason of an aborted signal. */
export interface Engine {
  /** The path of its socket. */
  readonly socket: string
  /** Asks for the engine's versions; the one of its API that both know is `api`. */
  version(): Promise<EngineVersion>
  /** Sends a request and returns the JSON of the answer; null for an answer without a body. */
  call<T>(request: EngineRequest): Promise<T>
  /** Sends a request and returns the answer as a stream, which the caller reads to its end or destroys. */
  open(request: EngineRequest): Promise<IncomingMessage>
  /** Sends a request whose connection becomes the input and output of a program. */
  upgrade(request: EngineRequest): Promise<Duplex>
}

export interface EngineVersion extends VersionRange {
  /** The version of the engine: `20.10.24+dfsg1`. */
  readonly Version: string
  readonly Os: string
  readonly Arch: string
  readonly api: string
}

/**
 * @param socket the absolute path of the engine's Unix socket
 * @param patienceMs how long an engine may take to say its version; one that hangs is not asked again for as long
 */
export function createEngine(socket: string, patienceMs = 10_000): Engine {
  let agreed: Promise<EngineVersion> | null = null

  const version = async (): Promise<EngineVersion> => {
    const asked: EngineRequest = { method: 'GET', path: ['version'], timeoutMs: patienceMs }
    const found = JSON.parse(await receive(socket, null, asked)) as Omit<EngineVersion, 'api'>
    const api = commonVersion(found)
    if (api !== null) return { ...found, api }
    const range = `${found.MinAPIVersion ?? '?'} to ${found.ApiVersion}`
    throw new EngineError(nameOf(asked), 400, `its API has the versions ${range}; Fairlead needs ${neededVersion}`)
  }

  /** Asked for once, and again after the engine was away: another one may have taken its place. */
  const agree = async (): Promise<string> => {
    agreed ??= version()
    const asked = agreed
    const forget = () => {
      if (agreed === asked) agreed = null
    }
    try {
      return (await asked).api
    } catch (error) {
      // One that hangs is asked by one call at a time, and not by each: all others fail at once.
      if (isSilent(error)) setTimeout(forget, patienceMs).unref()
      else forget()
      throw error
    }
  }
  const withVersion = async <T>(use: (api: string) => Promise<T>): Promise<T> => {
    const api = await agree()
    try {
      return await use(api)
    } catch (error) {
      if (isAway(error)) agreed = null
      throw error
    }
  }
  return {
    socket,
    version,
    open: (request) => withVersion((api) => send(socket, api, request)),
    upgrade: (request) => withVersion((api) => sendUpgrade(socket, api, request)),
    async call<T>(request: EngineRequest): Promise<T> {
      const text = await withVersion((api) => receive(socket, api, request))
      try {
        return (text === '' ? null : JSON.parse(text)) as T
      } catch (error) {
        throw new EngineError(nameOf(request), null, 'the answer ended early', { cause: error })
      }
    },
  }
}

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
const nameOf = ({ method, path }: EngineRequest): string => `${method} ${path.join('/')}`

/**
 * Sends a request and resolves with the answer once its head is there. The caller reads or destroys it.
 *
 * @param version the version of the API; null for the one call that asks for it
 * @throws EngineError for an answer that is no success, and when there is none
 */
async function send(socketPath: string, version: string | null, asked: EngineRequest): Promise<IncomingMessage> {
  const { answer, end } = await answerTo(socketPath, version, asked)
  end()
  return answer
}

/**
 * Sends a request and reads all of the answer, within one deadline.
 *
 * @throws EngineError as `send`, and for an answer that is too long
 */
async function receive(socketPath: string, version: string | null, asked: EngineRequest): Promise<string> {
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
async function sendUpgrade(socketPath: string, version: string, asked: EngineRequest): Promise<Duplex> {
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

/*
 * The version of the engine's API that is spoken. Each engine knows a range of versions: that of Debian 12 ends at 1.41,
 * and current ones begin above it, so that no fixed version suits all.
 */

/** The first version with all that Fairlead uses. */
const oldest = '1.41'
/** The last version whose changes were read. */
const newest = '1.51'

interface VersionRange {
  readonly ApiVersion: string
  readonly MinAPIVersion?: string
}

/** Returns the newest version that the engine and Fairlead know; null when there is none. */
export function commonVersion({ ApiVersion: last, MinAPIVersion: first = oldest }: VersionRange): string | null {
  const chosen = compare(last, newest) < 0 ? last : newest
  const lowest = compare(first, oldest) > 0 ? first : oldest
  return compare(chosen, lowest) < 0 ? null : chosen
}

/** Tells an operator which engine is needed. */
const neededVersion = `an engine whose API has a version from ${oldest} to ${newest} (Docker 20.10 or newer)`

function compare(a: string, b: string): number {
  const [x, y] = [a, b].map((version) => version.split('.').map(Number))
  return (x?.[0] ?? 0) - (y?.[0] ?? 0) || (x?.[1] ?? 0) - (y?.[1] ?? 0)
}

const pauseMs = 200

/**
 * Repeats a call for some time while the engine is away: it is for some seconds when it is started again, and nothing that it
 * runs has to end meanwhile. Only for calls that change nothing, or that may be repeated.
 */
export async function whenBack<T>(call: () => Promise<T>, waitMs: number, signal?: AbortSignal): Promise<T> {
  for (const deadline = performance.now() + waitMs; ; ) {
    try {
      return await call()
    } catch (error) {
      if (!isAway(error) || performance.now() > deadline) throw error
    }
    await sleep(pauseMs, undefined, signal === undefined ? {} : { signal })
  }
}
