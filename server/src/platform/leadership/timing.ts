/*
 * The times of leadership, in milliseconds. Together they give a leader that was killed a successor at the next poll, and
 * one that was stopped a successor within five seconds: 3 s until it counts as silent, and two polls.
 */

/** How often the leader renews its row. */
export const renewMs = 1_000
/** A leader that has not renewed for so long is silent: others that have watched it may end its session. */
export const silentMs = 3_000
/** How often the others try to take the lock. They also hear at once when a leader gives it up. */
export const pollMs = 250
/** How long a server waits before it contends again when it could not lead, or cannot reach the database. */
export const afterFailureMs = 2_000
/** The deadline of a query on the session that holds the lock. */
export const queryTimeoutMs = 5_000
/** The deadline of closing a connection to a database that does not answer. */
export const closeTimeoutMs = 1_000
/** How long transactions that a killed server began may take to end before a new leader begins. */
export const settleTimeoutMs = 5_000
export const settlePollMs = 20
