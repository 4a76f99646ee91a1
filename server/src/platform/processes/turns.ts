import { setImmediate as nextTurn } from 'node:timers/promises'

/** The longest time that a walk over processes or their files blocks the event loop. */
const sliceMs = 5

/** Returns a function to await between the steps of a long walk; it lets other work have its turn when that is due. */
export function takingTurns(): () => Promise<void> {
  let sliceEnd = performance.now() + sliceMs
  return async () => {
    if (performance.now() <= sliceEnd) return
    await nextTurn()
    sliceEnd = performance.now() + sliceMs
  }
}
