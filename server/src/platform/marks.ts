/*
 * Marks in rows outside the job queue: "this certificate is being renewed", "this command runs". Only the leader sets
 * them. The write that clears a mark can fail, so a sweep releases every mark that no work in this process holds.
 */

declare const held: unique symbol

/** Functions that set a mark require this proof, which only `during` makes. */
export interface Held {
  readonly id: string
  readonly [held]: true
}

export interface Marks {
  /** Runs work that sets the mark of a row, and clears it at its end. */
  during<Result>(id: string, work: (held: Held) => Promise<Result>): Promise<Result>
  /** Releases marks that no work holds. Sweeps do not overlap. */
  sweep(): Promise<void>
}

/**
 * @param kind.marked returns the ids of the rows that have a mark
 * @param kind.release clears the marks of these rows
 */
export function createMarks(kind: {
  readonly marked: () => Promise<readonly string[]>
  readonly release: (ids: readonly string[]) => Promise<void>
}): Marks {
  const underWay = new Map<string, number>()
  /** The rows that work has held at any time since the current search began. */
  let seen: Set<string> | null = null
  let releasing: Promise<void> = Promise.resolve()

  const sweep = async (): Promise<void> => {
    seen = new Set(underWay.keys())
    const marked = await kind.marked().catch((error: unknown) => {
      seen = null
      throw error
    })
    const lost = marked.filter((id) => seen?.has(id) === false)
    seen = null
    if (lost.length === 0) return
    const release = kind.release(lost)
    releasing = release.catch(() => undefined)
    await release
  }
  let sweeping: Promise<void> = Promise.resolve()

  return {
    async during(id, work) {
      // A release in progress must not clear the mark that is set now.
      await releasing
      seen?.add(id)
      underWay.set(id, (underWay.get(id) ?? 0) + 1)
      try {
        return await work({ id } as Held)
      } finally {
        const others = (underWay.get(id) ?? 1) - 1
        if (others === 0) underWay.delete(id)
        else underWay.set(id, others)
      }
    },
    sweep() {
      sweeping = sweeping.then(sweep, sweep)
      return sweeping
    },
  }
}
