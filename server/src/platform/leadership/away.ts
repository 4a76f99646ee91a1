import { DatabaseError } from 'pg'
import { sleepUntilAborted } from '../abort.ts'
import { pollMs } from './timing.ts'

/** The classes of PostgreSQL's codes for a connection, for resources, and for an end by an operator or a stop. */
const passing = /^(08|53|57)/

/** True for an error of PostgreSQL that a later attempt may not meet. */
export function isPassing(error: unknown): boolean {
  return error instanceof DatabaseError && passing.test(error.code ?? '')
}

/** Runs work on the database until it succeeds, also while the database is away. Rejects with what cannot succeed. */
export async function onceDatabaseIsBack<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    signal.throwIfAborted()
    try {
      return await work()
    } catch (error) {
      // Every other error than PostgreSQL's own is one of the connection.
      if (signal.aborted || (error instanceof DatabaseError && !isPassing(error))) throw error
      await sleepUntilAborted(pollMs, signal)
    }
  }
}
