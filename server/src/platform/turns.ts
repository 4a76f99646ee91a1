import { setImmediate as nextTurn } from 'node:timers/promises'

let turns: Promise<void> = Promise.resolve()

/**
 * Resolves when all earlier callers have had their turn, with a turn of the event loop in between. Work of several
 * milliseconds awaits it before it begins, so that many such pieces of work do not block the event loop together.
 */
export function ownTurn(): Promise<void> {
  turns = turns.then(() => nextTurn())
  return turns
}
