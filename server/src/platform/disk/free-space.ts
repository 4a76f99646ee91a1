import { execFile } from 'node:child_process'
import { rename, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ApiError } from '../../contract/errors.ts'
import type { Logger } from '../logger.ts'
import { isBeyondQuota } from '../processes.ts'
import { SYSTEM_FOLDERS } from './folders.ts'

/** Below this, the server refuses changes: PostgreSQL ends when it cannot write its log. */
const mostCriticalBytes = 64_000_000

/** Returns the free bytes on the disk of a folder that users other than root may use. */
export async function freeBytesIn(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory)
  return bavail * bsize
}

/** Throws `server_error` when less than the reserve is free. */
export async function assertRoom(directory: string, reserveBytes: number): Promise<void> {
  if ((await freeBytesIn(directory)) >= reserveBytes) return
  throw new ApiError(
    'server_error',
    'The disk of the server is nearly full, so that it takes no deployments and files. Tell its operator.',
  )
}

/** Returns the free bytes below which the server makes no changes. @param reserveBytes see `assertRoom` */
export function criticalBytes(reserveBytes: number): number {
  return Math.min(mostCriticalBytes, reserveBytes / 2)
}

/** Replaces the system's error for a full disk with an error for the client. Returns any other error unchanged. */
export function describeDiskError(error: unknown): unknown {
  const code = (error as NodeJS.ErrnoException | null)?.code
  if (code !== 'ENOSPC' && !isBeyondQuota(error)) return error
  return new ApiError(
    'server_error',
    "The server's disk is full: nothing was stored. Its operator must make room first.",
  )
}

const timeoutMs = 60_000

/** Runs util-linux's `fallocate` (fallocate(1)), because Node cannot allocate or free space without writing. */
export async function fallocate(...args: readonly string[]): Promise<void> {
  await promisify(execFile)('fallocate', args, { timeout: timeoutMs, env: { PATH: SYSTEM_FOLDERS.join(':') } })
}

/** PostgreSQL needs some segments of its log, of 16 MB each, to recover and make a checkpoint. */
const ballastBytes = 128 * 1024 * 1024
/** Below this, PostgreSQL cannot start. */
const fullBytes = 32_000_000

/** The file in the data directory whose space is set aside for the server's own PostgreSQL. */
const ballastIn = (dataDirectory: string): string => join(dataDirectory, 'ballast')

/** Gives the space up when the disk is full, so that PostgreSQL can start. Does nothing while there is room. */
export async function releaseBallast(dataDirectory: string, logger: Pick<Logger, 'warn'>): Promise<void> {
  const path = ballastIn(dataDirectory)
  if ((await stat(path).catch(() => null)) === null) return
  if ((await freeBytesIn(dataDirectory)) >= fullBytes) return
  await rm(path, { force: true })
  logger.warn({ path, bytes: ballastBytes }, 'the disk is full: the space reserved for PostgreSQL is released')
}

/**
 * Sets the space aside, unless less than `keepFreeBytes` would stay free. Does nothing when it was set aside before.
 */
export async function restoreBallast(dataDirectory: string, keepFreeBytes: number): Promise<void> {
  const path = ballastIn(dataDirectory)
  if ((await stat(path).catch(() => null)) !== null) return
  if ((await freeBytesIn(dataDirectory)) < ballastBytes + Math.max(keepFreeBytes, fullBytes)) return
  const unfinished = `${path}.part`
  try {
    // A sparse file would set nothing aside.
    await fallocate('--length', String(ballastBytes), unfinished)
    await rename(unfinished, path)
  } finally {
    await rm(unfinished, { force: true })
  }
}
