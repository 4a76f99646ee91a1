import { ApiError, type ErrorBody, errorStatuses } from './errors.ts'
import type { Route } from './routes.ts'

export interface ClientOptions {
  /** The server's address up to and including the version, such as `https://fairlead.example.com/v1`. */
  readonly baseUrl: string
  /** Not needed with cookie authentication. A function is called for every attempt, for keys that change. */
  readonly apiKey?: string | ((signal: AbortSignal | undefined) => Promise<string>)
  /** The number of repetitions after no answer, or a status of 429 or 5xx. Defaults to 3. */
  readonly retries?: number
  /** Called before each repetition with the error that would otherwise reject the method. Throw to stop repetitions. */
  readonly onRetry?: (error: unknown) => void
  /** Replaces the platform's `fetch`, for tests and instrumentation. */
  readonly fetch?: typeof fetch
}

type RouteShape = Omit<Route, 'access'>

interface AnyInput {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly body?: unknown
  readonly signal?: AbortSignal
  readonly idempotencyKey?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** True for operations that accept an idempotency key, by the rule of the server. */
const takesKey = ({ method, upload, waits }: RouteShape): boolean => method === 'POST' && !upload && !waits

export function createMethods(
  table: Readonly<Record<string, RouteShape>>,
  options: ClientOptions,
): Record<string, Record<string, unknown>> {
  const baseUrl = options.baseUrl.replace(/\/+$/, '')
  const send = options.fetch ?? fetch
  const retries = options.retries ?? 3

  const request = async (route: RouteShape, url: string, input: AnyInput): Promise<Answered> => {
    const key = takesKey(route) ? (input.idempotencyKey ?? crypto.randomUUID()) : undefined
    let uncertain = false
    // Aborted without a key: the key function has retried before.
    const withoutKey = new AbortController()
    const signal = AbortSignal.any([withoutKey.signal, ...(input.signal === undefined ? [] : [input.signal])])
    const attempt = async (): Promise<Answered> => {
      const before = uncertain
      const apiKey = await keyOf(options, input.signal).catch((error: unknown) => {
        withoutKey.abort()
        throw error
      })
      uncertain = true
      const response = await send(url, requestInit(route, input, apiKey, key))
      const text = route.text && response.ok ? undefined : await response.text()
      uncertain = before || response.status >= 500
      return { response, text }
    }
    // Uploads are not repeated: they have no idempotency key, and a stream may be consumed.
    const onRetry: Retries['onRetry'] = (failed) =>
      options.onRetry?.('error' in failed ? failed.error : readError(failed.response, failed.text ?? ''))
    const answered = await withRetries({ most: route.upload ? 0 : retries, onRetry }, attempt, signal)
    const { response, text = '' } = answered
    // A 404 on a repeated DELETE means that an earlier attempt succeeded and its answer was lost.
    const deleted = route.method === 'DELETE' && uncertain && response.status === 404
    if (!response.ok && !deleted) throw readError(response, text)
    return answered
  }

  const methodFor = (route: RouteShape) => {
    const call = async (input: AnyInput = {}) =>
      read(route, await request(route, baseUrl + target(route, input), input))
    if (!route.list) return call
    const pages = async function* (input: AnyInput = {}) {
      let url: string | undefined = baseUrl + target(route, input)
      while (url !== undefined) {
        const answered: Answered = await request(route, url, input)
        yield read(route, answered)
        url = nextPage(answered.response, url)
      }
    }
    return Object.assign(call, { pages })
  }

  const client: Record<string, Record<string, unknown>> = {}
  for (const [name, route] of Object.entries(table)) {
    const [group, verb] = name.split('.') as [string, string]
    client[group] ??= {}
    client[group][verb] = methodFor(route)
  }
  return client
}

/** Returns the value of an answer, or the response itself for a stream of text. */
function read(route: RouteShape, { response, text }: Answered): unknown {
  if (text === undefined) return response
  return route.status === 204 ? undefined : readJson(text, response)
}

async function keyOf({ apiKey }: ClientOptions, signal: AbortSignal | undefined): Promise<string | undefined> {
  return typeof apiKey === 'function' ? await apiKey(signal) : apiKey
}

function requestInit(
  route: RouteShape,
  input: AnyInput,
  apiKey: string | undefined,
  key: string | undefined,
): RequestInit {
  const type = input.body === undefined ? undefined : (route.upload ?? 'application/json')
  const json = type === 'application/json'
  const headers = new Headers(input.headers)
  if (apiKey !== undefined) headers.set('authorization', `Bearer ${apiKey}`)
  if (key !== undefined) headers.set('idempotency-key', key)
  // `fetch` adds the boundary of a form.
  if (type !== undefined && type !== 'multipart/form-data') headers.set('content-type', type)
  return {
    method: route.method,
    headers,
    ...(input.body === undefined ? {} : { body: json ? JSON.stringify(input.body) : (input.body as FormData | Blob) }),
    ...(input.signal === undefined ? {} : { signal: input.signal }),
    // The API never redirects. Following a redirect could send the key to another host, or turn a POST into a GET.
    redirect: 'manual',
  }
}

/** Returns path and query. Throws a `TypeError` for a parameter that would change the path: empty, `.` or `..`. */
function target(route: RouteShape, { params = {}, query = {} }: AnyInput): string {
  const path = route.path.replace(/:(\w+)/g, (_, name: string) => {
    const value = params[name] ?? ''
    if (/^\.{0,2}$/.test(value)) throw new TypeError(`params.${name} must be an identifier`)
    return encodeURIComponent(value)
  })
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  )
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`
}

/** Returns the URL of the next page. Uses only the query of the link, so that the key goes to no other host. */
function nextPage(response: Response, current: string): string | undefined {
  const link = /<([^>]*)>; *rel="?next"?/.exec(response.headers.get('link') ?? '')?.[1]
  if (link === undefined) return undefined
  const query = link.includes('?') ? link.slice(link.indexOf('?')) : ''
  return current.replace(/\?.*$/, '') + query
}

/** Parses a JSON answer. Throws an `ApiError` when it is not JSON. */
export function readJson(text: string, response: Response): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw foreignAnswer(response)
  }
}

export function readError(response: Response, text: string): ApiError {
  try {
    const { error } = JSON.parse(text) as ErrorBody
    if (Object.hasOwn(errorStatuses, error.code) && typeof error.message === 'string' && isDetails(error.details)) {
      return new ApiError(error.code, error.message, error.details, requestIdOf(response))
    }
  } catch {
    // A proxy's error page, or another server.
  }
  return foreignAnswer(response)
}

/** Returns the error for an answer that did not come from a Fairlead server. */
export function foreignAnswer(response: Response): ApiError {
  return new ApiError(
    'server_error',
    `The address answered with status ${response.status} and a body that is not Fairlead's. Check the base address; it ends with /v1.`,
    { status: response.status },
    requestIdOf(response),
  )
}

function isDetails(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { errors = [] } = value as { errors?: unknown }
  return Array.isArray(errors) && errors.every(isProblem)
}

function isProblem(value: unknown): boolean {
  const { field, message } = Object(value) as { field?: unknown; message?: unknown }
  return typeof field === 'string' && typeof message === 'string'
}

function requestIdOf(response: Response): string | undefined {
  return response.headers.get('x-request-id') ?? undefined
}

/** The client gives up on a longer `Retry-After`. */
const longestRetryAfterMs = 60_000
const longestBackOffMs = 15_000
const firstWaitMs = 500

/** `text` is `undefined` when the caller streams the body. */
export interface Answered {
  readonly response: Response
  readonly text: string | undefined
}

export interface Retries {
  /** The most repetitions; may be infinite. */
  readonly most: number
  /** Called with an answer or an error before each wait. Throw to prevent a further attempt. */
  readonly onRetry?: ((failed: Answered | { readonly error: unknown }) => void) | undefined
}

/**
 * Resolves to the first answer that is neither 429 nor 5xx, or to the last answer after all repetitions. Waits for
 * `Retry-After`, otherwise with exponential back-off and full jitter. An incomplete answer counts as no answer.
 */
export async function withRetries(
  { most, onRetry }: Retries,
  attempt: () => Promise<Answered>,
  signal: AbortSignal | undefined,
): Promise<Answered> {
  for (let made = 0; ; made++) {
    const last = made >= most
    const answered = await attempt().catch((error: unknown) => {
      // Without an answer: repeat, unless the caller aborted.
      if (last || signal?.aborted) throw error
      onRetry?.({ error })
      return undefined
    })
    if (answered !== undefined && (last || !isTemporary(answered.response.status))) return answered
    const wait = retryAfterMs(answered?.response.headers.get('retry-after') ?? null)
    if (answered !== undefined && wait !== undefined && wait > longestRetryAfterMs) return answered
    if (answered !== undefined) onRetry?.(answered)
    await pause(wait === undefined ? backOffMs(made) : wait * (1 + Math.random() / 10), signal)
  }
}

function backOffMs(made: number): number {
  return Math.random() * Math.min(longestBackOffMs, firstWaitMs * 2 ** made)
}

function isTemporary(status: number): boolean {
  return status === 429 || status >= 500
}

/** Reads seconds, or a date (RFC 9110 §10.2.3). */
function retryAfterMs(value: string | null): number | undefined {
  if (value === null) return undefined
  if (/^\d+$/.test(value)) return Number(value) * 1000
  const at = Date.parse(value)
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now())
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal?.aborted) stop()
    else signal?.addEventListener('abort', stop, { once: true })
  })
}
