import { sleep } from './sleep.ts'

/*
 * The server may be away for a while. One notice says so for the whole page, which continues automatically.
 */

const probeEveryMs = 1_000
let reachable = true
const listeners = new Set<() => void>()

export const isReachable = (): boolean => reachable

export function onReachabilityChange(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Records that a request got no answer, and asks until the server answers. */
export function noteUnreachable(): void {
  if (!reachable) return
  change(false)
  void sleep(probeEveryMs)
    .then(untilAnswered)
    .then(() => change(true))
}

/** Resolves when the server answers. */
export async function untilAnswered(): Promise<void> {
  while (!(await answers())) await sleep(probeEveryMs)
}

/** Resolves to true when the server answers. */
export async function answers(): Promise<boolean> {
  // A starting or stopping server, or a proxy in front of it, answers with another status.
  return fetch('/readyz', { cache: 'no-store' }).then(
    ({ ok }) => ok,
    () => false,
  )
}

function change(now: boolean): void {
  reachable = now
  for (const listener of listeners) listener()
}
