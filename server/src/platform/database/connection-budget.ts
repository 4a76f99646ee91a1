/*
 * The connections of the server's pools, and how many each kind of work may hold. All pool sizes and concurrency limits
 * come from here, so that they fit together.
 */

export interface ConnectionUse {
  readonly concurrency: number
  /** The most connections that one unit of work holds at once: 2 for a query beside an open transaction. */
  readonly connectionsEach: number
}

export interface ConnectionBudget<Lane extends string = string> {
  readonly poolSize: number
  readonly requests: ConnectionUse
  readonly reservedForReads: number
  /** Job lanes. Each lane holds one more connection all the time, to listen for jobs. */
  readonly lanes: Readonly<Record<Lane, ConnectionUse>>
}

/**
 * Checks that the numbers fit together, and returns them. Two rules hold:
 *
 * - Listeners, transactions of requests and the reserve fit into the pool side by side. Jobs share the rest: they may
 *   outnumber it, because a job waits for a connection without holding one.
 * - The pool cannot deadlock. Work that needs `n` connections waits for its last connection while it holds `n - 1`. If
 *   all work waits like this at once, one connection must be left, so that some work can finish.
 *
 * @throws Error that names the rule that is broken and its numbers
 */
export function checkedBudget<Lane extends string>(budget: ConnectionBudget<Lane>): ConnectionBudget<Lane> {
  const { poolSize, requests, reservedForReads } = budget
  const lanes = Object.entries<ConnectionUse>(budget.lanes)
  const listeners = lanes.length
  const sideBySide = listeners + requests.concurrency + reservedForReads
  if (sideBySide > poolSize) {
    throw new Error(
      `The connection budget does not fit: ${listeners} listeners of job lanes, ${requests.concurrency} transactions of ` +
        `requests and ${reservedForReads} reserved for reads need ${sideBySide} connections, and the pool has ${poolSize}.`,
    )
  }
  const held = [['requests', requests] as const, ...lanes].map(
    ([name, { concurrency, connectionsEach }]) => [name, concurrency * (connectionsEach - 1)] as const,
  )
  const waiting = held.reduce((sum, [, connections]) => sum + connections, 0)
  if (listeners + waiting >= poolSize) {
    const parts = held.filter(([, connections]) => connections > 0).map(([name, count]) => `${name} ${count}`)
    throw new Error(
      `The connection budget can deadlock: ${listeners} listeners of job lanes and ${waiting} connections that may be held ` +
        `while another one is waited for (${parts.join(', ')}) leave none of the pool's ${poolSize} to finish with.`,
    )
  }
  return budget
}

/**
 * Every server has the pool for requests; the leader also has the pool for background work. The server does not start
 * when the numbers do not fit.
 */
export const connectionBudget = {
  requests: checkedBudget({
    poolSize: 16,
    requests: { concurrency: 10, connectionsEach: 1 },
    reservedForReads: 6,
    lanes: {},
  }),
  leader: checkedBudget({
    poolSize: 20,
    requests: { concurrency: 0, connectionsEach: 1 },
    // The reconciler, webhooks and maintenance. Jobs share what these leave.
    reservedForReads: 6,
    lanes: {
      /** Deployments. Their builds wait for build slots, which are fewer. */
      deploy: { concurrency: 20, connectionsEach: 1 },
      /** Starts of existing releases do not wait for builds. */
      start: { concurrency: 5, connectionsEach: 1 },
      databases: { concurrency: 10, connectionsEach: 1 },
      /** Requests wait for password rotations, and database copies may occupy the `databases` lane for an hour. */
      logins: { concurrency: 3, connectionsEach: 1 },
      removal: { concurrency: 2, connectionsEach: 1 },
    },
  }),
}

/** Connections of each server outside the pools: the leadership lock, the cluster membership, listeners. */
const outsidePools = 1 + 1 + 3
const forCommands = 10

/** Returns the most connections that this number of servers, including one leader, uses on one PostgreSQL. */
export function connectionsOf(servers: number): number {
  return servers * (connectionBudget.requests.poolSize + outsidePools) + connectionBudget.leader.poolSize + forCommands
}
