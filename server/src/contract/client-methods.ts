import { readError, readJson } from './client-answers.ts'
import { type Answered, type Retries, withRetries } from './client-retries.ts'
import type { Route } from './routes.ts'

export interface ClientOptions {
  /** The server's address up to and including the version, such as `https://fairlead.example.com/v1`. */
  readonly baseUrl: string
  /** Not needed when a cookie authenticates. A function is called for every attempt, for keys that are renewed. */
  readonly apiKey?: string | ((signal: AbortSignal | undefined) => Promise<string>)
  /** The number of repetitions when there is no answer, or a status of 429 or 5xx. Defaults to 3. */
  readonly retries?: number
  /** Called before each repetition with the error that the method would reject with. When it throws, there is none. */
  readonly onRetry?: (error: unknown) => void
  /** Replaces the platform's `fetch`, for tests and instrumentation. */
  readonly fetch?: typeof fetch
}

/** Clients need no access rules: the server checks them. */
type RouteShape = Omit<Route, 'access'>

interface AnyInput {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly body?: unknown
  readonly signal?: AbortSignal
  readonly idempotencyKey?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** As the server does. */
const takesKey = ({ method, upload, waits }: RouteShape): boolean => method === 'POST' && !upload && !waits

/** Creates one method for each route of a table, by group and verb. The caller adds their types. */
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
    // Aborted when there is no key: whoever gives it has tried often enough.
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
    // Uploads are not repeated: they have no idempotency key, and their body may be a stream that is consumed.
    const onRetry: Retries['onRetry'] = (failed) =>
      options.onRetry?.('error' in failed ? failed.error : readError(failed.response, failed.text ?? ''))
    const answered = await withRetries({ most: route.upload ? 0 : retries, onRetry }, attempt, signal)
    const { response, text = '' } = answered
    // A 404 on a repeated DELETE: the first attempt, whose answer was lost, has deleted it.
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

/** Returns the value of an answer; the response itself where its text is a stream. */
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
  // The type of a form names its boundary, which `fetch` chooses.
  if (type !== undefined && type !== 'multipart/form-data') headers.set('content-type', type)
  return {
    method: route.method,
    headers,
    ...(input.body === undefined ? {} : { body: json ? JSON.stringify(input.body) : (input.body as FormData | Blob) }),
    ...(input.signal === undefined ? {} : { signal: input.signal }),
    // The API never redirects. Following one could send the key to another host or turn a POST into a GET.
    redirect: 'manual',
  }
}

/** Returns path and query. Throws a `TypeError` on a parameter that would change the path: empty, `.` or `..`. */
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

/** Returns the URL of the next page. Only the query of the link is used, so that the key goes to no other host. */
function nextPage(response: Response, current: string): string | undefined {
  const link = /<([^>]*)>; *rel="?next"?/.exec(response.headers.get('link') ?? '')?.[1]
  if (link === undefined) return undefined
  const query = link.includes('?') ? link.slice(link.indexOf('?')) : ''
  return current.replace(/\?.*$/, '') + query
}
