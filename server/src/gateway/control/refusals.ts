import type { RefusedEndpoint } from './protocol.ts'

/** Passes refusals of endpoints on to those who listen. */
export interface Refusals {
  emit(refused: RefusedEndpoint): void
  /** Returns a function that removes the listener. */
  onRefused(listener: (refused: RefusedEndpoint) => void): () => void
}

export function createRefusals(): Refusals {
  const listeners = new Set<(refused: RefusedEndpoint) => void>()
  return {
    emit({ appId, deploymentId, endpoint }) {
      for (const listener of listeners) listener({ appId, deploymentId, endpoint })
    },
    onRefused(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
