/** Nobody waits longer than this for the next attempt; a server that asks for more is believed and not asked again. */
const longestWaitMs = 60_000
const firstWaitMs = 500

/**
 * The first answer that is neither 429 nor 5xx, or the last one after `retries` repetitions, which come after
 * `Retry-After`, else with exponential back-off and full jitter.
 */
export async function withRetries(
  retries: number,
  attempt: () => Promise<Response>,
  signal: AbortSignal | undefined,
): Promise<Response> {
  for (let made = 0; ; made++) {
    const last = made >= retries
    const answer = await attempt().catch((error: unknown) => {
      // Without an answer nobody knows what happened; whoever gave up is not kept waiting.
      if (last || signal?.aborted) throw error
      return undefined
    })
    if (answer !== undefined && (last || !isTemporary(answer.status))) return answer
    const wait = retryAfterMs(answer?.headers.get('retry-after') ?? null)
    if (answer !== undefined && wait !== undefined && wait > longestWaitMs) return answer
    await answer?.body?.cancel()
    await pause(wait ?? Math.random() * firstWaitMs * 2 ** made, signal)
  }
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
