/** The longest wait that an answer may ask for. When `Retry-After` is longer, the client does not retry. */
const longestRetryAfterMs = 60_000
/** The longest wait that the client chooses. */
const longestBackOffMs = 15_000
const firstWaitMs = 500

/** An answer. `text` is its body, or `undefined` when the caller streams it. */
export interface Answered {
  readonly response: Response
  readonly text: string | undefined
}

export interface Retries {
  /** The most repetitions, which may be endless. */
  readonly most: number
  /** Called with an answer or an error before each wait. When it throws, there is no further attempt. */
  readonly onRetry?: ((failed: Answered | { readonly error: unknown }) => void) | undefined
}

/**
 * Resolves to the first answer that is neither 429 nor 5xx, or to the last one after all repetitions. Waits for
 * `Retry-After`, otherwise with exponential back-off and full jitter. An incomplete answer counts as none.
 */
export async function withRetries(
  { most, onRetry }: Retries,
  attempt: () => Promise<Answered>,
  signal: AbortSignal | undefined,
): Promise<Answered> {
  for (let made = 0; ; made++) {
    const last = made >= most
    const answered = await attempt().catch((error: unknown) => {
      // No answer: repeat, unless the caller aborted.
      if (last || signal?.aborted) throw error
      onRetry?.({ error })
      return undefined
    })
    if (answered !== undefined && (last || !isTemporary(answered.response.status))) return answered
    const wait = retryAfterMs(answered?.response.headers.get('retry-after') ?? null)
    if (answered !== undefined && wait !== undefined && wait > longestRetryAfterMs) return answered
    if (answered !== undefined) onRetry?.(answered)
    await pause(wait === undefined ? backOffMs(made) : wait * (1 + Math.random() / 10), signal)
  }
}

function backOffMs(made: number): number {
  return Math.random() * Math.min(longestBackOffMs, firstWaitMs * 2 ** made)
}

function isTemporary(status: number): boolean {
  return status === 429 || status >= 500
}

/** RFC 9110 §10.2.3: seconds, or a date. */
function retryAfterMs(value: string | null): number | undefined {
  if (value === null) return undefined
  if (/^\d+$/.test(value)) return Number(value) * 1000
  const at = Date.parse(value)
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now())
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal?.aborted) stop()
    else signal?.addEventListener('abort', stop, { once: true })
  })
}
