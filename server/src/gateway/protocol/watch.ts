import type { PendingCalls } from './rpc.ts'

const everyMs = 1_000

export interface WatchOptions {
  /** A process that answers nothing for this time hangs. */
  readonly silentMs: number
  /** void => Called once, when the other process has been silent for `silentMs`. */
  readonly onSilent: () => void
}

export interface Watch {
  /** How long the other process has answered nothing, in milliseconds, counted while this process was running. */
  silentForMs(): number
  /** The number of silent workers in the last answer of the other process. */
  silentOthers(): number
  stop(): void
}

/**
 * Asks another process every second whether it answers, because a hanging process keeps its connection. Every received
 * message counts as an answer: Node sends connections to another process one by one, and a question waits behind them.
 * A pause of this process counts as one second.
 *
 * @param received returns the number of messages from the other process
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
