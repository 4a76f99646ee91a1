import { descriptorLimit } from '../../platform/processes/descriptors.ts'

/** Counts the connections of one listening port. */
export interface Gate {
  /** Admits one more connection; false when it must be closed at once. */
  enter(): boolean
  leave(): void
}

/** Descriptors that are kept for calls of the server, logs, listening sockets and Node itself. */
const keptDescriptors = 256

/**
 * Returns how many connections of clients this process can have: each needs a descriptor, and one more to its app. A process
 * without free descriptors would neither switch an app nor answer for any.
 */
export function mostConnections(): number {
  return Math.max(16, Math.floor((descriptorLimit() - keptDescriptors) / 2))
}

/**
 * Returns a function that makes a gate for each port of a process that can have `most` connections. A port may have as many
 * as are free: one that is flooded takes half of all, and leaves the others the rest.
 */
export function createGates(most: number): () => Gate {
  let all = 0
  return () => {
    let own = 0
    return {
      enter() {
        if (own >= most - all) return false
        own += 1
        all += 1
        return true
      },
      leave() {
        own -= 1
        all -= 1
      },
    }
  }
}
