import { ApiError } from '../contract/errors.ts'
import { type Plans, planNamed } from '../platform/plans.ts'

export interface Limits {
  /** Of one file. */
  readonly fileBytes: number
  /** Of all files of a project. */
  readonly quotaBytes: number
}

/** What a project of this plan may store. */
export function limitsOf(plans: Plans, plan: string): Limits {
  const { file_mb, storage_gb } = planNamed(plans, plan)
  return { fileBytes: file_mb * 1e6, quotaBytes: storage_gb * 1e9 }
}

/** `invalid_request`; `details.max_bytes` is the largest file that would be taken now. */
export function tooLarge(maxBytes: number): ApiError {
  const most = Math.max(0, Math.floor(maxBytes))
  const message = `is too large: the project's plan leaves room for ${most} bytes`
  return new ApiError('invalid_request', `file: ${message}`, {
    field: 'file',
    max_bytes: most,
    errors: [{ field: 'file', message }],
  })
}

/** What a full disk is told as; any other error stays what it is. */
export function describeDiskError(error: unknown): unknown {
  const code = (error as NodeJS.ErrnoException | null)?.code
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error
  return new ApiError(
    'server_error',
    "The server's disk is full: nothing was stored. Its operator must make room first.",
  )
}
