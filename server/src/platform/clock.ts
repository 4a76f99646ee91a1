/** The clocks of a process, in milliseconds: the wall clock, which may be set, and a clock that only goes forward. */
export interface Clocks {
  readonly wall: () => number
  readonly monotonic: () => number
}

export interface ClockWatchOptions {
  /** Gets the milliseconds by which the clock was set back. After a rejection, the next check calls it again. */
  readonly onBack: (ms: number) => Promise<void>
  readonly onError: (error: unknown) => void
  readonly clocks?: Clocks
  readonly everyMs?: number
}

const processClocks: Clocks = { wall: () => Date.now(), monotonic: () => performance.now() }

/** A gradual correction moves the clock by less than a thousandth, and is ignored. */
const leastMs = 1_000

/**
 * Detects that the clock was set back, so that work that waits for a time does not wait too long.
 *
 * @param backMs milliseconds by which the clock was set back before; `onBack` is called with them first
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
