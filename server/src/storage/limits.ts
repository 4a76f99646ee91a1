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
  const message = `is too large: the project's plan leaves room for ${most} bytes`
  return new ApiError('invalid_request', `file: ${message}`, {
    field: 'file',
    max_bytes: most,
    errors: [{ field: 'file', message }],
  })
}

/** Returns an error that tells the client of a full disk in place of the system's own; any other error unchanged. */
export function describeDiskError(error: unknown): unknown {
  const code = (error as NodeJS.ErrnoException | null)?.code
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error
  return new ApiError(
    'server_error',
    "The server's disk is full: nothing was stored. Its operator must make room first.",
  )
}
