import { readError, readJson } from './client-answers.ts'
import { type Answered, withRetries } from './client-retries.ts'
import type { BodyInput, QueryInput, ResponseBody } from './operations.ts'
import { type Group, type ListName, type OperationName, type PathParam, type Route, routes } from './routes.ts'

export { ApiError, type ErrorCode } from './errors.ts'
export type { BodyInput, QueryInput, ResponseBody } from './operations.ts'
export type { OperationName } from './routes.ts'

export interface ClientOptions {
  /** The server's address up to and including the version, such as `https://fairlead.example.com/v1`. */
  readonly baseUrl: string
  /** Not needed where a cookie says who asks. */
  readonly apiKey?: string
  /** How often a request is repeated that was not answered, or answered with 429 or 5xx; 3 unless told otherwise. */
  readonly retries?: number
  /** For tests and instrumentation; the platform's own `fetch` by default. */
  readonly fetch?: typeof fetch
}

type Verb<G extends Group> = OperationName extends infer Name ? (Name extends `${G}.${infer V}` ? V : never) : never

type Routes = typeof routes

type Params<Name extends OperationName> = [PathParam<Name>] extends [never]
  ? { readonly params?: never }
  : { readonly params: Readonly<Record<PathParam<Name>, string>> }

/** What a list takes besides; `Partial<undefined>` would leave nothing of the others. */
type ListQuery<Given> = Given extends undefined ? unknown : Partial<Given>

type Query<Name extends OperationName> = Name extends ListName
  ? { readonly query?: { readonly limit?: number; readonly cursor?: string } & ListQuery<QueryInput<Name>> }
  : QueryInput<Name> extends undefined
    ? { readonly query?: never }
    : { readonly query?: QueryInput<Name> }

type Body<Name extends OperationName> = Routes[Name] extends { upload: true }
  ? { readonly body: FormData }
  : BodyInput<Name> extends undefined
    ? { readonly body?: never }
    : { readonly body: BodyInput<Name> }

type Input<Name extends OperationName> = Params<Name> &
  Query<Name> &
  Body<Name> & {
    readonly signal?: AbortSignal
    /** Of a POST: a repetition with the same key does nothing twice. Made by the client unless given. */
    readonly idempotencyKey?: string
    readonly headers?: Readonly<Record<string, string>>
  }

/** Operations that answer with text resolve to the response itself, so that it can be read as it comes. */
type Answer<Name extends OperationName> = Routes[Name] extends { text: true } ? Response : ResponseBody<Name>

type Given<Name extends OperationName> =
  Record<never, never> extends Input<Name> ? [input?: Input<Name>] : [input: Input<Name>]

type Method<Name extends OperationName> = ((...given: Given<Name>) => Promise<Answer<Name>>) &
  (Name extends ListName
    ? {
        /** One page after the other, as the `Link` headers lead. */
        pages(...given: Given<Name>): AsyncGenerator<Answer<Name>, void>
      }
    : unknown)

/** `client.<group>.<verb>({ params, query, body, signal })`, one method for each operation of the contract. */
export type Client = {
  readonly [G in Group]: {
    readonly [V in Verb<G>]: `${G}.${V}` extends infer Name extends OperationName ? Method<Name> : never
  }
}

/** Who may ask is the server's to know. */
type RouteShape = Omit<Route, 'access'>

interface AnyInput {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly body?: unknown
  readonly signal?: AbortSignal
  readonly idempotencyKey?: string
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * A typed client of the whole API. Methods reject with `ApiError` when the server answers with an error,
 * and with what `fetch` throws when there is no answer.
 */
export function createClient(options: ClientOptions): Client {
  return createMethods(routes, options) as unknown as Client
}

/** One method for each route of a table, by group and verb; the caller knows their types. */
export function createMethods(
  table: Readonly<Record<string, RouteShape>>,
  options: ClientOptions,
): Record<string, Record<string, unknown>> {
  const baseUrl = options.baseUrl.replace(/\/+$/, '')
  const send = options.fetch ?? fetch
  const retries = options.retries ?? 3

  const request = async (route: RouteShape, url: string, input: AnyInput): Promise<Answered> => {
    const key = route.method === 'POST' && !route.upload ? (input.idempotencyKey ?? crypto.randomUUID()) : undefined
    let uncertain = false
    const attempt = async (): Promise<Answered> => {
      const before = uncertain
      uncertain = true
      const response = await send(url, requestInit(route, input, options.apiKey, key))
      const text = route.text && response.ok ? undefined : await response.text()
      uncertain = before || response.status >= 500
      return { response, text }
    }
    // An upload cannot be made again: its body has gone, and no key tells that it is the same one.
    const answered = await withRetries(route.upload ? 0 : retries, attempt, input.signal)
    const { response, text = '' } = answered
    // What is gone when asked again was deleted by the request whose answer was lost.
    const deleted = route.method === 'DELETE' && uncertain && response.status === 404
    if (!response.ok && !deleted) throw readError(response, text)
    return answered
  }

  const read = (route: RouteShape, { response, text }: Answered): unknown => {
    if (text === undefined) return response
    return route.status === 204 ? undefined : readJson(text, response)
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

function requestInit(
  route: RouteShape,
  input: AnyInput,
  apiKey: string | undefined,
  key: string | undefined,
): RequestInit {
  const json = input.body !== undefined && !route.upload
  const headers = new Headers(input.headers)
  if (apiKey !== undefined) headers.set('authorization', `Bearer ${apiKey}`)
  if (key !== undefined) headers.set('idempotency-key', key)
  if (json) headers.set('content-type', 'application/json')
  return {
    method: route.method,
    headers,
    ...(input.body === undefined ? {} : { body: json ? JSON.stringify(input.body) : (input.body as FormData) }),
    ...(input.signal === undefined ? {} : { signal: input.signal }),
    // An API never redirects; followed, a redirect would take the key elsewhere or turn a POST into a GET.
    redirect: 'manual',
  }
}

/** Throws a `TypeError` on a parameter that would make it the path of something else. */
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

/** The address of the next page. Only its query is believed: the key is sent nowhere else. */
function nextPage(response: Response, current: string): string | undefined {
  const link = /<([^>]*)>; *rel="?next"?/.exec(response.headers.get('link') ?? '')?.[1]
  if (link === undefined) return undefined
  const query = link.includes('?') ? link.slice(link.indexOf('?')) : ''
  return current.replace(/\?.*$/, '') + query
}
