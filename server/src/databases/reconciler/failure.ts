import type { DatabaseFailure } from '../../contract/databases.ts'
import { EngineError } from '../engines/engine.ts'

/** How long errors are retried before a database or snapshot has failed. */
const retryMs = 5 * 60_000

/** True while an error may still pass by itself, so that the job shall be retried. */
export function mayRetry(since: Date): boolean {
  return Date.now() - since.getTime() < retryMs
}

/** Returns the failure that clients see; the error itself is in the log. */
export function failureOf(error: unknown): DatabaseFailure {
  if (error instanceof EngineError) return { code: error.code, message: error.message }
  return { code: 'server_error', message: 'The engine refused it; the operator finds the reason in the log.' }
}
