import type { Upstream } from '../../gateway/client.ts'
import type { Handle } from '../../runtimes/runtime.ts'

/**
 * Instances that are one too many: each takes no new requests, finishes those that it has, and is ended. This goes on in the
 * background, because nothing else of their release has to wait for it.
 */
export interface Leaving {
  has(instance: Handle): boolean
  /**
   * Begins with an instance; does nothing for one that leaves already.
   *
   * @param upstream its endpoints, which get no new requests any more; null without any
   */
  begin(instance: Handle, upstream: Upstream | null, end: () => Promise<void>): void
  /** Keeps an instance that is wanted again; false when it is being ended already. */
  keep(instance: Handle): boolean
}

interface Leaver {
  readonly kept: AbortController
  isEnding: boolean
}

/**
 * @param drain resolves when the upstream has finished its requests or had its time, and when the signal aborts
 * @param inBackground tracks what goes on
 */
export function createLeaving(
  drain: (upstream: Upstream, signal: AbortSignal) => Promise<void>,
  inBackground: (work: Promise<void>) => void,
): Leaving {
  const leavers = new Map<string, Leaver>()
  const keyOf = (instance: Handle): string => JSON.stringify(instance)

  const leave = async (leaver: Leaver, upstream: Upstream | null, end: () => Promise<void>): Promise<void> => {
    if (upstream !== null) await drain(upstream, leaver.kept.signal)
    if (leaver.kept.signal.aborted) return
    leaver.isEnding = true
    await end()
  }

  return {
    has: (instance) => leavers.has(keyOf(instance)),

    begin(instance, upstream, end) {
      const key = keyOf(instance)
      if (leavers.has(key)) return
      const leaver: Leaver = { kept: new AbortController(), isEnding: false }
      leavers.set(key, leaver)
      const over = () => {
        if (leavers.get(key) === leaver) leavers.delete(key)
      }
      inBackground(leave(leaver, upstream, end).finally(over))
    },

    keep(instance) {
      const key = keyOf(instance)
      const leaver = leavers.get(key)
      if (leaver?.isEnding === true) return false
      leaver?.kept.abort()
      leavers.delete(key)
      return true
    },
  }
}
