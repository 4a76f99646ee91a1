import type { PendingCalls } from './rpc.ts'

const everyMs = 1_000

export interface WatchOptions {
  /** Called once, when the other process has answered nothing for this time. */
  readonly silentMs: number
  readonly onSilent: () => void
}

/** Tells if another process answers. */
export interface Watch {
  /** How long it has answered nothing, as far as this process was running, in milliseconds. */
  silentForMs(): number
  /** The number of its own processes that did not answer when it was asked last. */
  silentOthers(): number
  stop(): void
}

/**
 * Asks another process every second whether it answers. A process that hangs keeps its connection, so that nothing else would
 * tell. Every message counts: Node sends connections to another process one by one, and a question waits behind them. A time in which
 * this process itself was stopped counts as one second.
 *
 * @param received returns the number of messages that have come from the other process
 */
export function watchAnswers(
  { call, received }: Pick<PendingCalls<never>, 'call'> & { readonly received: () => number },
  { silentMs, onSilent }: WatchOptions,
): Watch {
  let silentForMs = 0
  let silentOthers = 0
  let isAsking = false
  let before = received()

  const ask = async (): Promise<void> => {
    isAsking = true
    // A gateway of an older version cannot be asked.
    silentOthers = await call('ping', null).catch(() => 0)
    isAsking = false
  }
  const timer = setInterval(() => {
    silentForMs = isAsking && received() === before ? silentForMs + everyMs : 0
    before = received()
    if (!isAsking) void ask()
    if (silentForMs < silentMs) return
    clearInterval(timer)
    onSilent()
  }, everyMs)
  timer.unref()
  return { silentForMs: () => silentForMs, silentOthers: () => silentOthers, stop: () => clearInterval(timer) }
}
