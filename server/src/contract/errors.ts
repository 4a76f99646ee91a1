/** The six codes of the specification ("Errors"). There are no others. */
export const errorStatuses = {
  invalid_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  rate_limit_exceeded: 429,
  server_error: 500,
} as const

export type ErrorCode = keyof typeof errorStatuses

/** One problem of a request. `field` is a path such as `env_vars.FOO`. */
export interface FieldProblem {
  readonly field: string
  readonly message: string
}

export interface ErrorDetails {
  readonly field?: string
  readonly errors?: readonly FieldProblem[]
  readonly [key: string]: unknown
}

export interface ErrorBody {
  readonly error: { readonly code: ErrorCode; readonly message: string; readonly details: ErrorDetails }
}

/** Thrown by the server's features and by the typed client. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ErrorCode
  readonly status: number
  readonly details: ErrorDetails
  /** The `X-Request-Id` of the answer. Only the client sets it. */
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

/** Returns an `invalid_request` for one or several fields. The first field gives the message and `details.field`. */
export function invalidRequest(first: FieldProblem, ...others: readonly FieldProblem[]): ApiError {
  return new ApiError('invalid_request', `${first.field}: ${first.message}`, {
    field: first.field,
    errors: [first, ...others],
  })
}

/** Returns a 404 whose body is the same for ids that never existed, were deleted, or belong to another account. */
export function notFound(): ApiError {
  return new ApiError('not_found', 'There is no such resource, or you may not see it.')
}
