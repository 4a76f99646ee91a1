import { ApiError, type ErrorBody, errorStatuses } from './errors.ts'
import type { BodyInput, ResponseBody } from './operations.ts'
import { type OperationName, type PathParam, type Resource, routes } from './routes.ts'

export { ApiError, type ErrorCode } from './errors.ts'
export type { BodyInput, ResponseBody } from './operations.ts'
export type { OperationName } from './routes.ts'

export interface ClientOptions {
  /** The server's address up to and including the version, such as `https://fairlead.example.com/v1`. */
  readonly baseUrl: string
  readonly apiKey: string
  /** For tests and instrumentation; the platform's own `fetch` by default. */
  readonly fetch?: typeof fetch
}

type Verb<R extends Resource> = OperationName extends infer Name ? (Name extends `${R}.${infer V}` ? V : never) : never

type Input<Name extends OperationName> = ([PathParam<Name>] extends [never]
  ? { readonly params?: never }
  : { readonly params: Readonly<Record<PathParam<Name>, string>> }) &
  (BodyInput<Name> extends undefined ? { readonly body?: never } : { readonly body: BodyInput<Name> }) & {
    readonly signal?: AbortSignal
  }

type Method<Name extends OperationName> =
  Record<never, never> extends Input<Name>
    ? (input?: Input<Name>) => Promise<ResponseBody<Name>>
    : (input: Input<Name>) => Promise<ResponseBody<Name>>

/** `client.<resource>.<verb>({ params, body, signal })`, one method for each operation of the contract. */
export type Client = {
  readonly [R in Resource]: {
    readonly [V in Verb<R>]: `${R}.${V}` extends infer Name extends OperationName ? Method<Name> : never
  }
}

interface AnyInput {
  readonly params?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly signal?: AbortSignal
}

/**
 * A typed client of the whole API. Methods reject with `ApiError` when the server answers with an error,
 * and with what `fetch` throws when there is no answer.
 */
export function createClient(options: ClientOptions): Client {
  const baseUrl = options.baseUrl.replace(/\/+$/, '')
  const send = options.fetch ?? fetch

  const call = async (name: OperationName, input: AnyInput = {}): Promise<unknown> => {
    const { method, path } = routes[name]
    const response = await send(baseUrl + fill(path, input.params ?? {}), {
      method,
      headers: {
        authorization: `Bearer ${options.apiKey}`,
        ...(input.body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(input.body === undefined ? {} : { body: JSON.stringify(input.body) }),
      ...(input.signal === undefined ? {} : { signal: input.signal }),
      // An API never redirects; a proxy that does would turn a POST into a GET.
      redirect: 'manual',
    })
    const text = await response.text()
    if (!response.ok) throw readError(response, text)
    return text === '' ? undefined : readJson(text, response)
  }

  const client: Record<string, Record<string, unknown>> = {}
  for (const name of Object.keys(routes) as OperationName[]) {
    const [resource, verb] = name.split('.') as [string, string]
    client[resource] ??= {}
    client[resource][verb] = (input?: AnyInput) => call(name, input)
  }
  return client as unknown as Client
}

function fill(path: string, params: Readonly<Record<string, string>>): string {
  return path.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
}

function readJson(text: string, response: Response): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw foreignAnswer(response)
  }
}

function readError(response: Response, text: string): ApiError {
  try {
    const { error } = JSON.parse(text) as ErrorBody
    if (Object.hasOwn(errorStatuses, error.code) && typeof error.message === 'string' && isRecord(error.details)) {
      return new ApiError(error.code, error.message, error.details, requestIdOf(response))
    }
  } catch {
    // Not an answer of this API: a proxy's page, or another server.
  }
  return foreignAnswer(response)
}

function isRecord(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

function foreignAnswer(response: Response): ApiError {
  return new ApiError(
    'server_error',
    `The address answered with status ${response.status} and a body that is not Fairlead's. Check the base address; it ends with /v1.`,
    { status: response.status },
    requestIdOf(response),
  )
}

function requestIdOf(response: Response): string | undefined {
  return response.headers.get('x-request-id') ?? undefined
}
