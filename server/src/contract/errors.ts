/** The six codes of the specification ("Errors") with their HTTP statuses; there are no others. */
export const errorStatuses = {
  invalid_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  rate_limit_exceeded: 429,
  server_error: 500,
} as const

export type ErrorCode = keyof typeof errorStatuses

/** One thing that is wrong with a request. `field` is a path such as `env_vars.FOO`. */
export interface FieldProblem {
  readonly field: string
  readonly message: string
}

export interface ErrorDetails {
  /** The first offending field. */
  readonly field?: string
  /** All of them. */
  readonly errors?: readonly FieldProblem[]
  readonly [key: string]: unknown
}

/** The body of every error answer. */
export interface ErrorBody {
  readonly error: { readonly code: ErrorCode; readonly message: string; readonly details: ErrorDetails }
}

/** The one error of the API, thrown by the server's features and by the typed client alike. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ErrorCode
  readonly status: number
  readonly details: ErrorDetails
  /** The server's name for the request; only set on the client's side. */
  readonly requestId: string | undefined

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}, requestId?: string) {
    super(message)
    this.code = code
    this.status = errorStatuses[code]
    this.details = details
    this.requestId = requestId
  }

  toBody(): ErrorBody {
    return { error: { code: this.code, message: this.message, details: this.details } }
  }
}

/** `invalid_request` for one or several fields; the first gives the message and `details.field`. */
export function invalidRequest(first: FieldProblem, ...others: readonly FieldProblem[]): ApiError {
  return new ApiError('invalid_request', `${first.field}: ${first.message}`, {
    field: first.field,
    errors: [first, ...others],
  })
}

/** The same body for what never existed, what is gone and what belongs to somebody else. */
export function notFound(): ApiError {
  return new ApiError('not_found', 'There is no such resource, or you may not see it.')
}
