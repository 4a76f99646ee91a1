import { type ClientOptions, createMethods } from './client-requests.ts'
import type { BodyInput, QueryInput, ResponseBody } from './operations.ts'
import { type Group, type ListName, type OperationName, type PathParam, routes } from './routes.ts'

export type { ClientOptions } from './client-requests.ts'
export { ApiError, type ErrorCode } from './errors.ts'
export type { BodyInput, QueryInput, ResponseBody } from './operations.ts'
export type { OperationName } from './routes.ts'

type Verb<G extends Group> = OperationName extends infer Name ? (Name extends `${G}.${infer V}` ? V : never) : never

type Routes = typeof routes

type Params<Name extends OperationName> = [PathParam<Name>] extends [never]
  ? { readonly params?: never }
  : { readonly params: Readonly<Record<PathParam<Name>, string>> }

/** `Partial<undefined>` would also remove `limit` and `cursor`. */
type ListQuery<Given> = Given extends undefined ? unknown : Partial<Given>

type Query<Name extends OperationName> = Name extends ListName
  ? { readonly query?: { readonly limit?: number; readonly cursor?: string } & ListQuery<QueryInput<Name>> }
  : QueryInput<Name> extends undefined
    ? { readonly query?: never }
    : { readonly query?: QueryInput<Name> }

type Body<Name extends OperationName> = Routes[Name] extends { upload: infer MediaType }
  ? { readonly body: MediaType extends 'multipart/form-data' ? FormData : Blob }
  : BodyInput<Name> extends undefined
    ? { readonly body?: never }
    : { readonly body: BodyInput<Name> }

type Input<Name extends OperationName> = Params<Name> &
  Query<Name> &
  Body<Name> & {
    readonly signal?: AbortSignal
    /** For a POST: a repetition with the same key has no second effect. The client makes a key by default. */
    readonly idempotencyKey?: string
    readonly headers?: Readonly<Record<string, string>>
  }

/** A text answer resolves to the response, so that the caller can stream it. */
type Answer<Name extends OperationName> = Routes[Name] extends { text: true } ? Response : ResponseBody<Name>

type Given<Name extends OperationName> =
  Record<never, never> extends Input<Name> ? [input?: Input<Name>] : [input: Input<Name>]

type Method<Name extends OperationName> = ((...given: Given<Name>) => Promise<Answer<Name>>) &
  (Name extends ListName
    ? {
        pages(...given: Given<Name>): AsyncGenerator<Answer<Name>, void>
      }
    : unknown)

/** `client.<group>.<verb>({ params, query, body, signal })`, one method for each operation of the contract. */
export type Client = {
  readonly [G in Group]: {
    readonly [V in Verb<G>]: `${G}.${V}` extends infer Name extends OperationName ? Method<Name> : never
  }
}

/**
 * Creates a typed client of the whole API. Methods reject with `ApiError` when the server answers with an error, and
 * with the error of `fetch` when there is no answer.
 */
export function createClient(options: ClientOptions): Client {
  return createMethods(routes, options) as unknown as Client
}
