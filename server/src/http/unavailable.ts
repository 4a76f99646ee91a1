import { ApiError } from '../contract/errors.ts'

/** A `server_error` that is answered with 503, as when the server starts: proxies and clients try again later. */
export class UnavailableError extends ApiError {
  override readonly status = 503

  constructor(message: string) {
    super('server_error', message)
  }
}
