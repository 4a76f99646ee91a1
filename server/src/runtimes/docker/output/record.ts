import { createHash, randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { beginning, type Position } from './position.ts'

/**
 * Notes how far the output of a container was written into its log. Each piece is noted before it is written, with its place in
 * the log, so that a server that takes over from one that was killed finds out whether the last piece was written.
 */
export interface OutputRecord {
  /** The position from which the output has to be read. */
  readonly position: Position
  /** Appends a piece of output to the log, after which the position is another one. */
  append(piece: Buffer, position: Position): Promise<void>
  close(): Promise<void>
}

/** Thrown when another server has opened the record meanwhile, and writes the output from now on. */
export class OutputTakenOver extends Error {
  override readonly name = 'OutputTakenOver'
}

interface Noted {
  /** The writer that has opened the record last. */
  readonly writer: string
  readonly before: Position
  readonly after: Position
  /** The piece between the two positions; null when nothing was written yet. */
  readonly piece: { readonly at: number; readonly bytes: number; readonly hash: string } | null
}

/** Longer than every note, so that one write replaces the whole of another. */
const noteBytes = 1_024

/**
 * @param path of the record, which is made when it is missing
 * @param log open for reading and appending; nothing else is appended to it during a call of `append`, but for notes of the
 *   server, which are rare
 */
export async function openRecord(path: string, log: FileHandle): Promise<OutputRecord> {
  const file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  const writer = randomUUID()
  const note = async (noted: Omit<Noted, 'writer'>): Promise<void> => {
    const text = JSON.stringify({ writer, ...noted })
    if (text.length > noteBytes) throw new Error('a note about output is too long')
    const { bytesWritten } = await file.write(text.padEnd(noteBytes), 0)
    if (bytesWritten < noteBytes) throw new Error('a note about output was not written whole')
  }
  let position = await positionOf(await readNote(file), log)
  await note({ before: position, after: position, piece: null })
  return {
    get position() {
      return position
    },
    async append(bytes, after) {
      if ((await readNote(file))?.writer !== writer) throw new OutputTakenOver('another server writes this output')
      const { size: at } = await log.stat()
      await note({ before: position, after, piece: { at, bytes: bytes.length, hash: hashOf(bytes) } })
      try {
        // `write` may write less on a disk that becomes full, and does not fail.
        await log.appendFile(bytes)
      } catch (error) {
        // It is read again, as a whole.
        await log.truncate(at)
        throw error
      }
      position = after
    },
    close: () => file.close(),
  }
}

async function readNote(file: FileHandle): Promise<Noted | null> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(noteBytes), 0, noteBytes, 0)
  try {
    return JSON.parse(buffer.toString('utf8', 0, bytesRead)) as Noted
  } catch {
    // It was made, and nothing was noted yet.
    return null
  }
}

async function positionOf(noted: Noted | null, log: FileHandle): Promise<Position> {
  if (noted === null) return beginning
  if (noted.piece === null) return noted.after
  const { at, bytes, hash } = noted.piece
  const written = Buffer.alloc(bytes)
  const { bytesRead } = await log.read(written, 0, bytes, at)
  return bytesRead === bytes && hashOf(written) === hash ? noted.after : noted.before
}

const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('base64')
