import { foreignAnswer, readError, readJson } from './client-answers.ts'
import { withRetries } from './client-retries.ts'
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

type Filters<Name extends OperationName> = QueryInput<Name> extends undefined ? unknown : Partial<QueryInput<Name>>

type Query<Name extends OperationName> = Name extends ListName
  ? { readonly query?: { readonly limit?: number; readonly cursor?: string } & Filters<Name> }
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
  const baseUrl = options.baseUrl.replace(/\/+$/, '')
  const send = options.fetch ?? fetch
  const retries = options.retries ?? 3

  const request = async (route: Route, url: string, input: AnyInput): Promise<Response> => {
    const attempt = () => send(url, requestInit(route, input, options.apiKey, key))
    const key = route.method === 'POST' && !route.upload ? (input.idempotencyKey ?? crypto.randomUUID()) : undefined
    // An upload cannot be made again: its body has gone, and no key tells that it is the same one.
    const response = await withRetries(route.upload ? 0 : retries, attempt, input.signal)
    if (!response.ok) throw readError(response, await response.text())
    return response
  }

  const read = async (route: Route, response: Response): Promise<unknown> => {
    if (route.text) return response
    const text = await response.text()
    if (route.status === 204) return undefined
    return text === '' ? Promise.reject(foreignAnswer(response)) : readJson(text, response)
  }

  const methodFor = (name: OperationName) => {
    const route: Route = routes[name]
    const call = async (input: AnyInput = {}) =>
      read(route, await request(route, baseUrl + target(route, input), input))
    if (!route.list) return call
    const pages = async function* (input: AnyInput = {}) {
      let url: string | undefined = baseUrl + target(route, input)
      while (url !== undefined) {
        const response: Response = await request(route, url, input)
        yield await read(route, response)
        url = nextPage(response, url)
      }
    }
    return Object.assign(call, { pages })
  }

  const client: Record<string, Record<string, unknown>> = {}
  for (const name of Object.keys(routes) as OperationName[]) {
    const [group, verb] = name.split('.') as [string, string]
    client[group] ??= {}
    client[group][verb] = methodFor(name)
  }
  return client as unknown as Client
}

function requestInit(route: Route, input: AnyInput, apiKey: string | undefined, key: string | undefined): RequestInit {
  const json = input.body !== undefined && !route.upload
  return {
    method: route.method,
    headers: {
      ...input.headers,
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...(json ? { 'content-type': 'application/json' } : {}),
    },
    ...(input.body === undefined ? {} : { body: json ? JSON.stringify(input.body) : (input.body as FormData) }),
    ...(input.signal === undefined ? {} : { signal: input.signal }),
    // An API never redirects; a proxy that does would turn a POST into a GET.
    redirect: 'manual',
  }
}

function target(route: Route, { params = {}, query = {} }: AnyInput): string {
  const path = route.path.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
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
