import { AsyncLocalStorage } from 'node:async_hooks'
import { readFile } from 'node:fs/promises'
import type { axios } from 'acme-client'
import type { Dispatcher } from 'undici'
import { AcmeError, problemIn, retryAfterMs } from './errors.ts'

const requestTimeoutMs = 30_000
const mostBytes = 1024 * 1024

export type Library = typeof import('acme-client')
type Adapter = Extract<typeof axios.defaults.adapter, (...args: never[]) => unknown>
type Request = Parameters<Adapter>[0]

export interface Transport {
  /** Runs `work`. Its requests end when the signal aborts. */
  use<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

interface Connections {
  readonly dispatcher: Dispatcher
  readonly request: typeof import('undici').request
  readonly signal: AbortSignal
}

const current = new AsyncLocalStorage<Connections>()

/** Loads the library. Its requests use the transport whose `use` they run in; outside of `use` they fail. */
export async function loadLibrary(): Promise<Library> {
  const library = (await import('acme-client')).default
  library.axios.defaults.adapter = send
  return library
}

/** @param ca the file with the root certificates of the authority; null for the public roots */
export async function createTransport(ca: string | null): Promise<Transport> {
  const { Agent, request } = await import('undici')
  const trusted = ca === null ? {} : { ca: await readFile(ca, 'utf8') }
  const dispatcher = new Agent({ connect: { ...trusted, timeout: requestTimeoutMs }, connections: 4 })
  return {
    use: (signal, work) => current.run({ dispatcher, request, signal }, work),
    close: () => dispatcher.destroy(),
  }
}

/**
 * Sends a request of the library. The library has no signals and no deadlines, and waits when it is told to try later.
 * Therefore problem answers become errors, except for an outdated nonce: the library repeats that request itself.
 */
const send: Adapter = async (config) => {
  const connections = current.getStore()
  if (connections === undefined) throw new Error('a request to an authority was made outside of its transport')
  const { signal } = connections
  try {
    const answer = await fetchAnswer(config, connections)
    const problem = answer.status < 400 ? undefined : problemIn(parse(answer.data))
    if (answer.status < 400 || problem?.type === 'badNonce') return { ...answer, statusText: '', config, request: {} }
    throw refusal(answer, problem)
  } catch (error) {
    signal.throwIfAborted()
    throw error instanceof AcmeError ? error : unreachable(error)
  }
}

interface Answer {
  readonly status: number
  readonly headers: Record<string, string>
  readonly data: string
}

async function fetchAnswer(config: Request, { dispatcher, request, signal }: Connections): Promise<Answer> {
  const { statusCode, headers, body } = await request(new URL(String(config.url)), {
    dispatcher,
    method: String(config.method).toUpperCase() as Dispatcher.HttpMethod,
    headers: { 'user-agent': 'Fairlead', 'accept-language': 'en', 'content-type': 'application/jose+json' },
    body: typeof config.data === 'string' ? config.data : null,
    signal: AbortSignal.any([signal, AbortSignal.timeout(requestTimeoutMs)]),
  })
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > mostBytes)
      throw new AcmeError('The authority answered with more than a megabyte.', { status: statusCode })
    chunks.push(chunk)
  }
  const single = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(', ') : value]],
  )
  return { status: statusCode, headers: Object.fromEntries(single), data: Buffer.concat(chunks).toString('utf8') }
}

function refusal({ status, headers }: Answer, problem: ReturnType<typeof problemIn>): AcmeError {
  const wait = retryAfterMs(headers['retry-after'], new Date())
  const message =
    problem === undefined ? `The authority answered with ${status}.` : `${problem.type}: ${problem.detail}`
  return new AcmeError(message, { ...(problem && { problem }), status, retryAfterMs: wait })
}

function unreachable(cause: unknown): AcmeError {
  const { code, message } = cause as NodeJS.ErrnoException
  return new AcmeError(`${code ?? message}`, {}, { cause })
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
