/** Counts of one kind of load, since the last `take`. */
export interface Tally {
  readonly count: number
  readonly failed: number
  /** Descriptions of the first failures. */
  readonly failures: readonly string[]
  /** The longest duration, in milliseconds. */
  readonly slowestMs: number
}

/** Counts successes and failures. */
export interface Counter {
  succeeded(ms: number): void
  failed(reason: unknown): void
  /** Returns the counts since the last call, and resets them. */
  take(): Tally
}

const failuresKept = 5

export function createCounter(): Counter {
  const fresh = () => ({ count: 0, failed: 0, failures: [] as string[], slowestMs: 0 })
  let current = fresh()
  return {
    succeeded(ms) {
      current.count += 1
      current.slowestMs = Math.max(current.slowestMs, ms)
    },
    failed(reason) {
      current.count += 1
      current.failed += 1
      if (current.failures.length < failuresKept) current.failures.push(describe(reason))
    },
    take() {
      const taken = current
      current = fresh()
      return taken
    },
  }
}

function describe(reason: unknown): string {
  if (!(reason instanceof Error)) return String(reason)
  const { cause } = reason
  return cause instanceof Error ? `${reason.message}: ${cause.message}` : reason.message
}
