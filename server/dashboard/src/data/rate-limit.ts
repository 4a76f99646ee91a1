import { ApiError } from '@fairlead/server/client'

/** The error of an answer that came because the account has used its requests of the hour. */
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

/** Notes an answer: one that was refused by the limit of the dashboard says when the next is answered. */
export function noteLimit(response: Response): void {
  // Other limits, such as that of sign-ins, have no such header, and are shown where they occur.
  const remaining = response.headers.get('x-ratelimit-remaining')
  if (remaining === null) return
  const refused = response.status === 429
  if (!refused && end === undefined) return
  end = refused ? new Date(Date.now() + Number(response.headers.get('retry-after') ?? 60) * 1_000) : undefined
  for (const listener of listeners) listener()
}

/** Returns when the limit ends that the last answer was refused by; `undefined` while requests are answered. */
export const limitEnd = (): Date | undefined => end

export function onLimitChange(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
