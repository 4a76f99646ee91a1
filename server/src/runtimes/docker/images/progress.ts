import type { Readable } from 'node:stream'
import { EngineError } from '../engine/error.ts'
import { readJsonLines } from '../engine/streams.ts'

/** One line of the progress of a pull. */
interface Progress {
  readonly id?: string
  readonly status?: string
  readonly progressDetail?: { readonly total?: number }
  readonly error?: string
}

/** Each layer prints a line when it begins and when it is there; the engine tells of every part of a second between. */
const told = /^(Pulling fs layer|Already exists|Pull complete|Download complete)$/

/**
 * Reads the progress of a pull to its end, and says in few lines how far it is.
 *
 * @param most the most bytes that the layers may have as they are sent
 * @returns false when they have more
 * @throws EngineError when the pull has failed
 */
export async function readProgress(
  answer: Readable,
  say: (line: string) => Promise<void>,
  most: number,
): Promise<boolean> {
  const sizes = new Map<string, number>()
  for await (const { id = '', status = '', progressDetail, error } of readJsonLines<Progress>(answer)) {
    if (error !== undefined) throw new EngineError('POST images/create', 500, error)
    if (progressDetail?.total !== undefined && status === 'Downloading') sizes.set(id, progressDetail.total)
    const bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0)
    if (bytes > most) return false
    if (told.test(status)) await say(`${id}: ${status}`)
  }
  return true
}
