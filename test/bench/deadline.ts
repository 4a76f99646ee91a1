/** Long enough for every single wait here on a busy machine. */
const usualSeconds = 300

/**
 * Waits for a promise. Rejects with a description when it is not settled in time, and when the signal aborts.
 *
 * @param what completes the sentence "there is still no …"
 */
export async function inTime<Result>(
  what: string,
  signal: AbortSignal,
  promise: Promise<Result>,
  seconds = usualSeconds,
): Promise<Result> {
  const { promise: over, reject } = Promise.withResolvers<never>()
  const late = setTimeout(() => reject(new Error(`after ${seconds} s there is still no ${what}`)), seconds * 1000)
  const abort = () => reject(new Error(`it was stopped while it waited for the ${what}`, { cause: signal.reason }))
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    return await Promise.race([promise, over])
  } finally {
    clearTimeout(late)
    signal.removeEventListener('abort', abort)
  }
}
