/*
 * The connections of the server's pools, and who may hold how many of them at once. Everything that sets a pool size or a
 * concurrency takes it from here, so that the numbers fit together.
 */

/** Work of one kind that runs several times at once. */
export interface ConnectionUse {
  /** The most of this work that runs at the same time. */
  readonly concurrency: number
  /** The most connections that one of them holds at the same time: 2 for a query beside an open transaction. */
  readonly connectionsEach: number
}

export interface ConnectionBudget<Lane extends string = string> {
  /** Connections of the pool. */
  readonly poolSize: number
  /** Transactions of API requests. */
  readonly requests: ConnectionUse
  /** Connections that neither requests' transactions nor the lanes' listeners occupy: for reads outside transactions. */
  readonly reservedForReads: number
  /** Job lanes. Each also listens for jobs on a connection of its own, all the time. */
  readonly lanes: Readonly<Record<Lane, ConnectionUse>>
}

/**
 * Checks that the numbers fit together, and returns them. Two rules hold:
 *
 * - Listeners, transactions of requests and the reserve fit into the pool side by side. Jobs share the rest: they may
 *   outnumber it, because a job waits for a connection without holding one.
 * - The pool cannot deadlock. Work that needs `n` connections waits for its last one while it holds `n - 1`. If all work
 *   does so at once, one connection must be left, so that some of it can finish.
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
 * The two pools of a server. Every server has the one of requests, and the leader has another one for the work in the
 * background. A start with numbers that do not fit fails with the reason.
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
      /** Deployments. Their builds wait for build slots, of which there are fewer. */
      deploy: { concurrency: 20, connectionsEach: 1 },
      /** Starts of existing releases, in a lane of their own so that they wait for no build. */
      start: { concurrency: 5, connectionsEach: 1 },
      databases: { concurrency: 10, connectionsEach: 1 },
      /** Rotations of passwords, for which requests wait: copies of databases may take all places of their lane for an hour. */
      logins: { concurrency: 3, connectionsEach: 1 },
      removal: { concurrency: 2, connectionsEach: 1 },
    },
  }),
}

/** Connections of each server outside the pools: the lock of the leadership, the membership in the cluster, listeners. */
const outsidePools = 1 + 1 + 3
/** Connections that commands beside the servers may use. */
const forCommands = 10

/** Returns the most connections that servers on one PostgreSQL use, of which one leads. */
export function connectionsOf(servers: number): number {
  return servers * (connectionBudget.requests.poolSize + outsidePools) + connectionBudget.leader.poolSize + forCommands
}
