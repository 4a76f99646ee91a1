/** True when sessions still use the database of the statement (object_in_use). */
export const isInUse = (error: unknown): boolean => codeOf(error) === '55006'

/**
 * duplicate_object, duplicate_database, and unique_violation for two transactions that create the same object at the
 * same time.
 */
const alreadyExists: ReadonlySet<string> = new Set(['42710', '42P04', '23505'])

/** True when the role or database to create exists already. */
export const isDuplicate = (error: unknown): boolean => alreadyExists.has(codeOf(error))

const maxAttempts = 5

/**
 * Repeats a statement that failed because of a concurrent statement. If two transactions change the same role or
 * database, as a request and a job may do, PostgreSQL makes one wait and then fail. The statements set the final state
 * of the role or database, so the second can run after the first.
 */
export async function retryConcurrentUpdate<Result>(statement: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await statement()
    } catch (error) {
      if (attempt === maxAttempts || !isConcurrentUpdate(error)) throw error
    }
  }
}

/**
 * PostgreSQL has no specific code for this error. It never translates the text of internal errors, so the text can be
 * compared.
 */
function isConcurrentUpdate(error: unknown): boolean {
  return codeOf(error) === 'XX000' && error instanceof Error && /^tuple concurrently /.test(error.message)
}

function codeOf(error: unknown): string {
  return (error as { code?: string }).code ?? ''
}
