import { ApiError } from '@fairlead/server/client'

/**
 * Returns the status of an answer that is not from Fairlead, such as a proxy's page; `undefined` for Fairlead's errors.
 */
export function foreignStatus(error: ApiError): number | undefined {
  const status = error.details['status']
  return error.code === 'server_error' && typeof status === 'number' ? status : undefined
}

/**
 * There was no key for the request: the CI gave no token, or the server did not exchange it. The cause says why. The
 * message is the command by which the project trusts the repository.
 */
export class KeyError extends Error {
  override readonly name = 'KeyError'
}

/** The address does not belong to a server: no answer below its path is from Fairlead. */
export class AddressError extends Error {
  override readonly name = 'AddressError'
}

/** True when the same request may succeed later: no answer, a server error, or too many requests. */
export function isTransient(error: unknown): boolean {
  if (error instanceof KeyError) return isTransient(error.cause)
  if (!(error instanceof ApiError)) return true
  const status = foreignStatus(error) ?? error.status
  return status >= 500 || status === 429
}

/** True when Fairlead itself answers that the resource does not exist. */
export function isGone(error: unknown): boolean {
  return error instanceof ApiError && error.code === 'not_found'
}
