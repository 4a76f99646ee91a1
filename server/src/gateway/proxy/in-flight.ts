import { endedOrAborted } from '../../platform/abort.ts'

/** The requests that are under way on an upstream, or for an app. */
export interface InFlight {
  /** Returns the number of those that are under way. */
  size(): number
  /** Adds one until the returned function is called; `cut` breaks it off before that. */
  add(cut: () => void): () => void
  /** Resolves as soon as nothing is under way; at once when nothing is. */
  whenEmpty(): Promise<void>
  /** Waits until nothing is under way; after `timeoutMs` the rest is cut, unless `signal` has ended the waiting. */
  finish(options: { readonly timeoutMs: number; readonly signal?: AbortSignal }): Promise<void>
}

/** The number of requests in several lists. */
export interface Total {
  count: number
}

interface Entry {
  readonly cut: () => void
  /** Its index in the list; -1 when it has left. */
  at: number
}

/**
 * Uses an array instead of a Set: under steady traffic V8 copies a Set every few requests, and each dead copy that has
 * grown old keeps the next one alive with everything in it. Small garbage collections then move megabytes of dead requests,
 * and every request waits for them.
 *
 * @param total counts those of this list, too
 */
export function createInFlight(total: Total = { count: 0 }): InFlight {
  let all: Entry[] = []
  const waiting = new Set<() => void>()

  function wakeWhenEmpty(): void {
    if (all.length > 0) return
    for (const wake of waiting) wake()
    waiting.clear()
  }

  function whenEmpty(): Promise<void> {
    if (all.length === 0) return Promise.resolve()
    return new Promise((resolve) => waiting.add(resolve))
  }

  /** Moves the last entry to where the leaving one was. */
  function leave(entry: Entry): void {
    if (entry.at === -1) return
    const last = all.pop()
    if (last !== undefined && last !== entry) {
      all[entry.at] = last
      last.at = entry.at
    }
    entry.at = -1
    total.count -= 1
    wakeWhenEmpty()
  }

  function cutAll(): void {
    const rest = all
    all = []
    total.count -= rest.length
    for (const entry of rest) entry.at = -1
    for (const entry of rest) entry.cut()
    wakeWhenEmpty()
  }

  return {
    size: () => all.length,
    add(cut) {
      const entry: Entry = { cut, at: all.length }
      all.push(entry)
      total.count += 1
      return () => leave(entry)
    },
    whenEmpty,
    async finish({ timeoutMs, signal }) {
      if (all.length === 0) return
      const timer = setTimeout(cutAll, timeoutMs)
      await (signal === undefined ? whenEmpty() : endedOrAborted(whenEmpty(), signal))
      clearTimeout(timer)
    },
  }
}
