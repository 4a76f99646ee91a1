/*
 * The session may end while a page is open. The page stays, so that typed text is not lost.
 */

let ended = false
let begun = 0
const listeners = new Set<() => void>()

/** True while the server accepts no request of this page, because its session has ended. */
export const hasSessionEnded = (): boolean => ended

/** Counts the sessions that have begun again on this page. */
export const sessionsBegun = (): number => begun

export function onSessionChange(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export function noteSessionEnd(): void {
  if (ended) return
  ended = true
  for (const listener of listeners) listener()
}

export function noteSessionBegin(): void {
  ended = false
  begun += 1
  for (const listener of listeners) listener()
}
