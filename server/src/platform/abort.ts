import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

/** Resolves after `ms` milliseconds, or at once when `signal` aborts. Never rejects: the caller checks the signal. */
export async function sleepUntilAborted(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined)
}

/** Rejects with the signal's reason on an abort. `work` itself continues. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const abort = () => aborted.reject(signal.reason)
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** Resolves when `work` has ended or `signal` aborts. Rejects as `work` does. */
export async function endedOrAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const over = new AbortController()
  const aborted = signal.aborted
    ? Promise.resolve()
    : once(signal, 'abort', { signal: over.signal }).catch(() => undefined)
  try {
    await Promise.race([work, aborted])
  } finally {
    over.abort()
  }
}

/**
 * Returns a function that pauses between checks of something that usually happens soon. Each pause is twice as long as
 * the previous pause, at most `longestMs`. The argument limits a single pause, in milliseconds.
 */
export function growingPause({
  firstMs,
  longestMs,
}: {
  readonly firstMs: number
  readonly longestMs: number
}): (mostMs?: number) => Promise<void> {
  let nextMs = firstMs
  return async (mostMs = longestMs) => {
    await sleep(Math.min(nextMs, Math.max(1, mostMs)))
    nextMs = Math.min(nextMs * 2, longestMs)
  }
}
