import type { IncomingMessage } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { readLastBytes, request } from '../../platform/http.ts'
import { EngineError, isAway, isSilent, noAnswer, tooLong } from './errors.ts'

/** A Docker engine at a socket of this machine. Methods throw an `EngineError`, or the reason of an aborted signal. */
export interface Engine {
  readonly socket: string
  /** Asks for the versions of the engine; `api` is the newest API version that both sides know. */
  version(): Promise<EngineVersion>
  /** Sends a request and returns the JSON answer; null for an answer without a body. */
  call<T>(request: EngineRequest): Promise<T>
  /** Sends a request and returns the answer as a stream. The caller reads it to its end or destroys it. */
  open(request: EngineRequest): Promise<IncomingMessage>
  /** Sends a request whose connection becomes the input and output of a program. */
  upgrade(request: EngineRequest): Promise<Duplex>
}

export interface EngineVersion extends VersionRange {
  readonly Version: string
  readonly Os: string
  readonly Arch: string
  readonly api: string
}

export interface EngineRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'HEAD'
  /** The parts of the path, with any characters: `['containers', id, 'json']`. */
  readonly path: readonly string[]
  /** Objects, such as filters, are sent as JSON. Arrays repeat their parameter. */
  readonly query?: Readonly<Record<string, string | number | boolean | object | undefined>>
  /** Arrays repeat their header. */
  readonly headers?: Readonly<Record<string, string | string[]>>
  readonly body?: object
  /** A tar archive in place of `body`. */
  readonly upload?: Readable
  readonly signal?: AbortSignal
  /** The time limit in milliseconds: for the whole answer of a call, for the head of a stream. 0 means no limit. */
  readonly timeoutMs?: number
  readonly mostBytes?: number
}

/**
 * @param socket the absolute path of the Unix socket of the engine
 * @param patienceMs the time limit for the version of the engine, and the pause before a hanging engine is asked again
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

  /** Asked once, and again after the engine was away: another engine may have taken its place. */
  const agree = async (): Promise<string> => {
    agreed ??= version()
    const asked = agreed
    const forget = () => {
      if (agreed === asked) agreed = null
    }
    try {
      return (await asked).api
    } catch (error) {
      // Only one call waits for a hanging engine; all others fail immediately.
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

const pauseMs = 200

/**
 * Repeats a call for some time while the engine is away: a restart takes some seconds, and running containers need not
 * end. Only for calls that change nothing or are safe to repeat.
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

/** Longer than the engine needs for any call that is not known to be slow. */
const defaultTimeoutMs = 60_000

/** The engine's messages are short. */
const mostErrorBytes = 64_000
/** Lists of containers are the longest answers, because they have the labels of images; see `mostConfigBytes`. */
const mostAnswerBytes = 128_000_000

/** Names a request in messages, without its query: `GET containers/abc/json`. */
const nameOf = ({ method, path }: EngineRequest): string => `${method} ${path.join('/')}`

/**
 * Sends a request and resolves with the head of the answer. The caller reads or destroys the answer.
 *
 * @param version the version of the API; null for the call that asks for it
 * @throws EngineError without an answer, and for an answer that is not a success
 */
async function send(socketPath: string, version: string | null, asked: EngineRequest): Promise<IncomingMessage> {
  const { answer, end } = await answerTo(socketPath, version, asked)
  end()
  return answer
}

/**
 * Reads the whole answer within one deadline.
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

/** @returns the result and `end`, which ends the deadline */
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

/** Like `send`, for calls whose connection becomes the input and output of a program. */
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
  // `refused` may reject after the upgrade.
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

/** @returns the result and `end`, which ends the deadline */
function begin(socketPath: string, version: string | null, asked: EngineRequest) {
  const { method, path, query = {}, headers, body, upload, timeoutMs = defaultTimeoutMs } = asked
  asked.signal?.throwIfAborted()
  const type = upload !== undefined ? 'application/x-tar' : body !== undefined ? 'application/json' : null
  const sent = request({
    socketPath,
    method,
    path: pathOf(version, path, query),
    headers: { ...(type !== null && { 'content-type': type }), ...headers },
    // A restarted engine does not know kept connections.
    agent: false,
  })
  // The engine may refuse an upload before it has read all of it.
  sent.once('socket', readLastBytes)
  const timer = timeoutMs === 0 ? undefined : setTimeout(() => sent.destroy(new Error(noAnswer)), timeoutMs)
  // This also ends an answer that is being read.
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
  // An upload that failed earlier does not report its error again.
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

/**
 * The engine answers 304 when a container was already started or stopped. It redirects paths with `..`, and the client
 * never follows.
 */
const isSuccess = ({ statusCode = 0 }: IncomingMessage): boolean => statusCode < 300 || statusCode === 304

async function refuse(asked: EngineRequest, answer: IncomingMessage): Promise<never> {
  const text = await readSome(answer, mostErrorBytes).then(String, () => '')
  throw new EngineError(nameOf(asked), answer.statusCode ?? 0, messageOf(text))
}

function messageOf(text: string): string {
  try {
    const parsed: unknown = JSON.parse(text)
    if (typeof parsed === 'object' && parsed !== null && 'message' in parsed) return String(parsed.message)
  } catch {
    // The answer comes from a proxy, or from an engine that failed halfway.
  }
  return text.trim()
}

/** Reads an answer. Stops after `most` bytes. */
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

/** For an abort by the caller, the error is the reason of the abort. */
function asEngineError(asked: EngineRequest, error: unknown): unknown {
  if (asked.signal?.aborted === true) return asked.signal.reason
  if (error instanceof EngineError) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined
  return new EngineError(nameOf(asked), null, code ?? (error instanceof Error ? error.message : String(error)), {
    cause: error,
  })
}

/*
 * The choice of the API version. Each engine supports a range of versions: Debian 12 ends at 1.41, and current engines
 * begin above it, so no fixed version suits all.
 */

/** The first version with all features that Fairlead uses. */
const oldest = '1.41'
/** The last version whose changes the authors have read. */
const newest = '1.51'

interface VersionRange {
  readonly ApiVersion: string
  readonly MinAPIVersion?: string
}

/** Returns the newest version that the engine and Fairlead both know; null without a common version. */
export function commonVersion({ ApiVersion: last, MinAPIVersion: first = oldest }: VersionRange): string | null {
  const chosen = compare(last, newest) < 0 ? last : newest
  const lowest = compare(first, oldest) > 0 ? first : oldest
  return compare(chosen, lowest) < 0 ? null : chosen
}

/** States the required engine for the operator. */
const neededVersion = `an engine whose API has a version from ${oldest} to ${newest} (Docker 20.10 or newer)`

function compare(a: string, b: string): number {
  const [x, y] = [a, b].map((version) => version.split('.').map(Number))
  return (x?.[0] ?? 0) - (y?.[0] ?? 0) || (x?.[1] ?? 0) - (y?.[1] ?? 0)
}
