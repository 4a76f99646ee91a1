import { once } from 'node:events'

/** Resolves when `work` has ended or `signal` aborts, whatever comes first. Rejects as `work` does. */
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
