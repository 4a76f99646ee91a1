import { ApiError } from '../contract/errors.ts'
import { type Plans, planNamed } from '../platform/plans.ts'

export interface Limits {
  /** The largest size of one file. */
  readonly fileBytes: number
  /** The largest size of all files of a project together. */
  readonly quotaBytes: number
}

/** Returns how much a project of this plan may store. */
export function limitsOf(plans: Plans, plan: string): Limits {
  const { file_mb, storage_gb } = planNamed(plans, plan)
  return { fileBytes: file_mb * 1e6, quotaBytes: storage_gb * 1e9 }
}

/** Returns the error for a file that is too large: `invalid_request`, with the largest size possible now in `details.max_bytes`. */
export function tooLarge(maxBytes: number): ApiError {
  const most = Math.max(0, Math.floor(maxBytes))
  const message = `is too large: the plan of the project and the limits of the account leave room for ${most} bytes`
  return new ApiError('invalid_request', `file: ${message}`, {
    field: 'file',
    max_bytes: most,
    errors: [{ field: 'file', message }],
  })
}

/** Returns the error for an upload beyond those that an account may have at once. */
export function tooManyUploads(most: number): ApiError {
  return new ApiError(
    'invalid_request',
    `The account has ${most} uploads under way, as many as it may have at once. Wait until one has ended.`,
    { limit: 'uploads', most },
  )
}
