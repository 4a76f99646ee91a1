/** Something that is going on and can be broken off. */
export interface Running {
  cut(): void
}

/** What is going on at one place: on an upstream, or for an app. */
export interface InFlight {
  add(running: Running): void
  delete(running: Running): void
  /** Resolves as soon as nothing is going on; at once when nothing is. */
  whenEmpty(): Promise<void>
  /** Waits until nothing is going on; after `timeoutMs` whatever is left is cut. */
  finish(options: { timeoutMs: number }): Promise<void>
}

export function createInFlight(): InFlight {
  const all = new Set<Running>()
  const waiting = new Set<() => void>()

  function wakeWhenEmpty(): void {
    if (all.size > 0) return
    for (const wake of waiting) wake()
    waiting.clear()
  }

  function whenEmpty(): Promise<void> {
    if (all.size === 0) return Promise.resolve()
    return new Promise((resolve) => waiting.add(resolve))
  }

  function cutAll(): void {
    const rest = [...all]
    all.clear()
    for (const running of rest) running.cut()
    wakeWhenEmpty()
  }

  return {
    add(running) {
      all.add(running)
    },
    delete(running) {
      if (all.delete(running)) wakeWhenEmpty()
    },
    whenEmpty,
    async finish({ timeoutMs }) {
      if (all.size === 0) return
      const timer = setTimeout(cutAll, timeoutMs)
      await whenEmpty()
      clearTimeout(timer)
    },
  }
}
