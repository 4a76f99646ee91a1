/** The times of a process: the clock, which may be set, and one that only goes forward. In milliseconds. */
export interface Clocks {
  readonly wall: () => number
  readonly monotonic: () => number
}

export interface ClockWatchOptions {
  /** Called with the milliseconds by which the clock was set back. A rejection is tried again with the next look. */
  readonly onBack: (ms: number) => Promise<void>
  readonly onError: (error: unknown) => void
  readonly clocks?: Clocks
  readonly everyMs?: number
}

const processClocks: Clocks = { wall: () => Date.now(), monotonic: () => performance.now() }

/** A clock that is corrected gradually moves by less than a thousandth. */
const leastMs = 1_000

/**
 * Watches whether the clock is set back, so that what waits for a time does not wait longer than it was to.
 *
 * @param backMs how far it was set back already, which `onBack` is called with first
 */
export function watchClock(options: ClockWatchOptions, backMs = 0): { stop(): Promise<void> } {
  const { onBack, onError, clocks = processClocks, everyMs = 1_000 } = options
  let pendingMs = backMs > leastMs ? backMs : 0
  let offset = clocks.wall() - clocks.monotonic()
  let telling: Promise<void> | undefined

  const tell = async () => {
    const ms = pendingMs
    try {
      await onBack(ms)
      pendingMs -= ms
    } catch (error) {
      onError(error)
    } finally {
      telling = undefined
    }
  }
  const look = () => {
    const now = clocks.wall() - clocks.monotonic()
    if (offset - now > leastMs) pendingMs += offset - now
    offset = now
    if (pendingMs > 0) telling ??= tell()
  }
  look()
  const timer = setInterval(look, everyMs).unref()
  return {
    async stop() {
      clearInterval(timer)
      await telling
    },
  }
}
