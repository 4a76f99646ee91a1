/** True when sessions still use the database of the statement (object_in_use). */
export const isInUse = (error: unknown): boolean => codeOf(error) === '55006'

/** duplicate_object, duplicate_database, and unique_violation when two transactions create it at the same time. */
const alreadyExists: ReadonlySet<string> = new Set(['42710', '42P04', '23505'])

/** True when the role or database that was to be created exists already. */
export const isDuplicate = (error: unknown): boolean => alreadyExists.has(codeOf(error))

const maxAttempts = 5

/**
 * Repeats a statement that failed because of a concurrent one. Of two transactions that change the same role or database,
 * PostgreSQL makes one wait and then fail; a request and a job may do so. The statements state how the role or
 * database is to be, so the second one can be run after the first.
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

/** PostgreSQL has no code of its own for it. The text of an internal error is never translated, so it can be compared. */
function isConcurrentUpdate(error: unknown): boolean {
  return codeOf(error) === 'XX000' && error instanceof Error && /^tuple concurrently /.test(error.message)
}

function codeOf(error: unknown): string {
  return (error as { code?: string }).code ?? ''
}
