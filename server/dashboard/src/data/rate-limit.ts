import { ApiError } from '@fairlead/server/client'

/** The error when the account has used its requests of the hour. */
export const isRateLimited = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.code === 'rate_limit_exceeded'

/** Returns how long the server asks to wait, in milliseconds; `undefined` for all other errors. */
export function rateLimitWaitMs(error: unknown): number | undefined {
  if (!isRateLimited(error)) return undefined
  const seconds = Number(error.details['retry_after'])
  return Number.isFinite(seconds) ? seconds * 1_000 : 60_000
}

let end: Date | undefined
const listeners = new Set<() => void>()

/** Records an answer: a refusal by the limit of the dashboard says when the limit ends. */
export function noteLimit(response: Response): void {
  // Other limits, such as the limit of sign-ins, do not send this header, and are shown where they occur.
  const remaining = response.headers.get('x-ratelimit-remaining')
  if (remaining === null) return
  const refused = response.status === 429
  if (!refused && end === undefined) return
  end = refused ? new Date(Date.now() + Number(response.headers.get('retry-after') ?? 60) * 1_000) : undefined
  for (const listener of listeners) listener()
}

/** Returns when the current limit ends; `undefined` while requests are answered. */
export const limitEnd = (): Date | undefined => end

export function onLimitChange(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
