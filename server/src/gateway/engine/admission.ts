import { descriptorLimit } from '../../platform/processes/descriptors.ts'

/** Descriptors that are kept for calls of the server, logs, listening sockets and Node itself. */
const keptDescriptors = 256

/**
 * Returns how many connections of clients this process can have: each needs a descriptor, and one more to its app. A process
 * without free descriptors would neither switch an app nor answer for any.
 */
export function mostConnections(): number {
  return Math.max(16, Math.floor((descriptorLimit() - keptDescriptors) / 2))
}
