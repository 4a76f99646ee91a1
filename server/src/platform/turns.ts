import { setImmediate as nextTurn } from 'node:timers/promises'

let turns: Promise<void> = Promise.resolve()

/**
 * Resolves when all earlier callers have had their turn, and everybody else has been answered in between. Work that takes some
 * milliseconds waits for its turn before it begins, so that many pieces of it at once make no long pause.
 */
export function ownTurn(): Promise<void> {
  turns = turns.then(() => nextTurn())
  return turns
}
