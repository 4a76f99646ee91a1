import { rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from '../logger.ts'
import { fallocate } from './fallocate.ts'
import { freeBytesIn } from './free-space.ts'

/** PostgreSQL needs room for a few segments of its log, of 16 MB each, to recover and make a checkpoint. */
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
  logger.warn(
    { path, bytes: ballastBytes },
    'the disk is full: the space that was set aside for PostgreSQL is given up',
  )
}

/** Sets the space aside, unless less than `keepFreeBytes` would stay free. Does nothing when it is set aside already. */
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
