import { DatabaseError } from 'pg'

const foreignKeyViolation = '23503'
/** PostgreSQL's own name of the constraint of a column that names a resource of the API. */
const ofResource = /_(?:project|app|deployment|domain|database|snapshot|webhook)_id_fkey$/

/**
 * True for the error of a row whose parent is deleted at the same time. Handlers hold the parents of what they create; this is for
 * a handler that does not. A deletion meets the same error when children are left, and that is a fault of the server.
 */
export const isParentGone = (error: unknown): boolean =>
  error instanceof DatabaseError && error.code === foreignKeyViolation && ofResource.test(error.constraint ?? '')
