import { endedOrAborted } from '../../platform/abort.ts'

export interface InFlight {
  size(): number
  /** Adds a request, which stays until the returned function is called; `cut` ends it earlier. */
  add(cut: () => void): () => void
  whenEmpty(): Promise<void>
  /** Waits until no request is running. Cuts the rest after `timeoutMs`, unless `signal` ends the waiting first. */
  finish(options: { readonly timeoutMs: number; readonly signal?: AbortSignal }): Promise<void>
}

export interface Total {
  count: number
}

interface Entry {
  readonly cut: () => void
  /** Its index; -1 when it has left. */
  at: number
}

/**
 * Uses an array, because under steady traffic V8 copies a Set every few requests. A dead copy in the old generation
 * keeps the next copy alive with everything in it, so that minor garbage collections move megabytes of dead requests
 * while every request waits.
 *
 * @param total also counts these requests
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
