import { ApiError } from '@fairlead/server/client'

/** The status of an answer that was not Fairlead's, such as a proxy's page; `undefined` for Fairlead's own errors. */
export function foreignStatus(error: ApiError): number | undefined {
  const status = error.details['status']
  return error.code === 'server_error' && typeof status === 'number' ? status : undefined
}

/** Whether the same question may get an answer later: no answer, a server in trouble, too many requests. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof ApiError)) return true
  const status = foreignStatus(error) ?? error.status
  return status >= 500 || status === 429
}

/** Whether Fairlead itself says that there is no such thing. */
export function isGone(error: unknown): boolean {
  return error instanceof ApiError && error.code === 'not_found'
}
