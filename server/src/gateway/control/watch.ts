import type { PendingCalls } from './calls.ts'

const everyMs = 1_000

export interface WatchOptions {
  /** Called once, when the other process has answered nothing for this time. */
  readonly silentMs: number
  readonly onSilent: () => void
}

/** Whether another process answers. */
export interface Watch {
  /** How long it has answered nothing, as far as this process was running, in milliseconds. */
  silentForMs(): number
  /** The number of its own processes that did not answer when it was asked last. */
  silentOthers(): number
  stop(): void
}

/**
 * Asks another process every second whether it answers. A process that hangs keeps its connection, so that nothing else would
 * tell. A reply to any call counts: many calls at once may take longer than the limit. A time in which this process itself was
 * stopped counts as one second.
 */
export function watchAnswers(
  { call, replies }: Pick<PendingCalls<never>, 'call' | 'replies'>,
  { silentMs, onSilent }: WatchOptions,
): Watch {
  let silentForMs = 0
  let silentOthers = 0
  let isAsking = false
  let before = replies()

  const ask = async (): Promise<void> => {
    isAsking = true
    // A gateway of an older version cannot be asked.
    silentOthers = await call('ping', null).catch(() => 0)
    isAsking = false
  }
  const timer = setInterval(() => {
    silentForMs = isAsking && replies() === before ? silentForMs + everyMs : 0
    before = replies()
    if (!isAsking) void ask()
    if (silentForMs < silentMs) return
    clearInterval(timer)
    onSilent()
  }, everyMs)
  timer.unref()
  return { silentForMs: () => silentForMs, silentOthers: () => silentOthers, stop: () => clearInterval(timer) }
}
