import { ApiError, type ErrorBody, errorStatuses } from './errors.ts'

/** Parses a JSON answer. Throws an `ApiError` when it is not JSON. */
export function readJson(text: string, response: Response): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw foreignAnswer(response)
  }
}

/** Returns the `ApiError` of an error answer. */
export function readError(response: Response, text: string): ApiError {
  try {
    const { error } = JSON.parse(text) as ErrorBody
    if (Object.hasOwn(errorStatuses, error.code) && typeof error.message === 'string' && isDetails(error.details)) {
      return new ApiError(error.code, error.message, error.details, requestIdOf(response))
    }
  } catch {
    // The answer is not from this API: a proxy's error page, or another server.
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
