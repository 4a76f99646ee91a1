import { descriptorLimit } from '../../platform/processes/descriptors.ts'
import { createInFlight, type InFlight } from '../upstream/in-flight.ts'

/** Descriptors that are kept for calls of the server, logs, listening sockets and Node itself. */
const keptDescriptors = 256

/**
 * Returns how many connections of clients this process can have: each needs a descriptor, and one more to its app. A process
 * without free descriptors would neither switch an app nor answer for any.
 */
export function mostConnections(): number {
  return Math.max(16, Math.floor((descriptorLimit() - keptDescriptors) / 2))
}

/** The requests of all apps of a process that can have `most` connections. */
export interface Requests {
  /** Returns the list of those of one more app. */
  newList(): InFlight
  /**
   * False for an app that has as many requests under way as connections are left for others: one that never answers takes
   * half of all, as the clients of an app with a port of its own do.
   */
  hasRoom(list: InFlight): boolean
}

export function createRequests(most: number): Requests {
  const total = { count: 0 }
  return {
    newList: () => createInFlight(total),
    hasRoom: (list) => list.size() < most - total.count,
  }
}
