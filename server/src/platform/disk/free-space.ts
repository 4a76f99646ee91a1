import { statfs } from 'node:fs/promises'
import { ApiError } from '../../contract/errors.ts'
import { isBeyondQuota } from '../processes.ts'

/** Below this, changes are refused: PostgreSQL ends when it cannot write its log. */
const mostCriticalBytes = 64_000_000

/** Returns the free bytes of the disk of a folder, as far as users other than root may use them. */
export async function freeBytesIn(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory)
  return bavail * bsize
}

/** Throws `server_error` when less than the reserve is free on the disk of a folder. */
export async function assertRoom(directory: string, reserveBytes: number): Promise<void> {
  if ((await freeBytesIn(directory)) >= reserveBytes) return
  throw new ApiError(
    'server_error',
    'The disk of the server is nearly full, so that it takes no deployments and files. Tell its operator.',
  )
}

/** Returns the free space below which the server makes no changes, for a reserve below which it accepts no deployments. */
export function criticalBytes(reserveBytes: number): number {
  return Math.min(mostCriticalBytes, reserveBytes / 2)
}

/** Returns an error that tells the client of a full disk in place of the system's own; any other error unchanged. */
export function describeDiskError(error: unknown): unknown {
  const code = (error as NodeJS.ErrnoException | null)?.code
  if (code !== 'ENOSPC' && !isBeyondQuota(error)) return error
  return new ApiError(
    'server_error',
    "The server's disk is full: nothing was stored. Its operator must make room first.",
  )
}
