import type { DatabaseFailure } from '../../contract/databases.ts'
import { EngineError } from '../engines/engine.ts'

/** The time for which errors are retried before a database or snapshot becomes `failed`. */
const retryMs = 5 * 60_000

/** True while an error may still be temporary, so that the job should be retried. */
export function mayRetry(since: Date): boolean {
  return Date.now() - since.getTime() < retryMs
}

/** Returns the failure that clients see; the log has the error itself. */
export function failureOf(error: unknown): DatabaseFailure {
  if (error instanceof EngineError) return { code: error.code, message: error.message }
  return { code: 'server_error', message: 'The engine refused it; the operator finds the reason in the log.' }
}
