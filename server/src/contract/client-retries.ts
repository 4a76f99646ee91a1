/** Nobody waits longer than this for the next attempt; a server that asks for more is believed and not asked again. */
const longestWaitMs = 60_000
const firstWaitMs = 500

/** An answer, read to its end unless it is one that is read as it comes. */
export interface Answered {
  readonly response: Response
  readonly text: string | undefined
}

/**
 * The first answer that is neither 429 nor 5xx, or the last one after `retries` repetitions, which come after
 * `Retry-After`, else with exponential back-off and full jitter. An answer that breaks off is none.
 */
export async function withRetries(
  retries: number,
  attempt: () => Promise<Answered>,
  signal: AbortSignal | undefined,
): Promise<Answered> {
  for (let made = 0; ; made++) {
    const last = made >= retries
    const answered = await attempt().catch((error: unknown) => {
      // Without an answer nobody knows what happened; whoever gave up is not kept waiting.
      if (last || signal?.aborted) throw error
      return undefined
    })
    if (answered !== undefined && (last || !isTemporary(answered.response.status))) return answered
    const wait = retryAfterMs(answered?.response.headers.get('retry-after') ?? null)
    if (answered !== undefined && wait !== undefined && wait > longestWaitMs) return answered
    await pause(wait === undefined ? backOffMs(made) : wait * (1 + Math.random() / 10), signal)
  }
}

function backOffMs(made: number): number {
  return Math.random() * Math.min(longestWaitMs, firstWaitMs * 2 ** made)
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
