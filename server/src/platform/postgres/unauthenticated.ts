import { type ChildProcess, childrenOf, sendSignal } from '../processes.ts'

/** The connections of a postmaster that may stay in each state for longer than a moment. */
export interface LoginLimits {
  /** The client has sent nothing. PostgreSQL has such a connection in none of its tables, so there is room for many. */
  readonly silent: number
  /**
   * The client has named user and database, and has yet to authenticate. Each connection takes one of
   * `max_connections`.
   */
  readonly authenticating: number
  /** The connections that may authenticate at once, including connections from a moment ago. */
  readonly authenticatingAtOnce: number
}

/** An honest client takes milliseconds for each step, on a very busy machine a second. */
const momentMs = 2_000

/**
 * Ends the oldest connections of a postmaster that have not logged in, beyond the limits; returns how many. PostgreSQL
 * accepts a fixed number of them (twice `max_connections`) from all peers together, before any limit of a database or
 * role counts, and waits for each for `authentication_timeout`. Does nothing where the system has no `/proc`.
 */
export function endUnauthenticated(postmaster: number, limits: LoginLimits): number {
  const children = childrenOf(postmaster, Math.min(limits.silent, limits.authenticating))
  // A child has the title of its postmaster until the client has named a user and a database.
  const silent = children.filter(({ title }) => !title.startsWith('postgres: '))
  const authenticating = children.filter(({ title }) => / (initializing|authentication)$/.test(title))
  const surplus = [
    ...oldest(silent, limits.silent).filter(isSlow),
    ...oldest(authenticating, limits.authenticating).filter(isSlow),
    ...oldest(authenticating, limits.authenticatingAtOnce).filter((child) => !isSlow(child)),
  ]
  for (const { pid } of surplus) sendSignal(pid, 'SIGTERM')
  return surplus.length
}

function oldest(waiting: readonly ChildProcess[], most: number): ChildProcess[] {
  return waiting.slice(0, Math.max(0, waiting.length - most))
}

const isSlow = ({ ageMs }: ChildProcess): boolean => ageMs > momentMs
