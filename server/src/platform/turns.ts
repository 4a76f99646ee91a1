import { setImmediate as nextTurn } from 'node:timers/promises'

let turns: Promise<void> = Promise.resolve()

/**
 * Resolves after all earlier callers, with a turn of the event loop in between. Work of several milliseconds awaits
 * this, so that many such pieces do not block the event loop together.
 */
export function ownTurn(): Promise<void> {
  turns = turns.then(() => nextTurn())
  return turns
}
