import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { OsUser } from '../../platform/users.ts'

/** A longer line is cut when it is read. */
export const LONGEST_LINE = 4 * 1024
/** No more than this is read from the end of a log, however long its lines. */
const LARGEST_TAIL = 8 * 1024 * 1024
const CHUNK = 64 * 1024

/**
 * Opens a log for appending, to be handed to a child process as its output: the child writes on when the server is
 * gone. The file is the user's, because programs open `/dev/stdout` and `/dev/stderr` anew; nobody else may read it.
 *
 * @throws Error when something other than a plain file lies there (an app could have put a link to a file of ours)
 */
export async function openLog(path: string, user: OsUser | null): Promise<FileHandle> {
  const flags =
    constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(path, flags, 0o600)
  try {
    const stats = await file.stat()
    if (!stats.isFile() || stats.nlink !== 1) throw new Error(`${path} is not a plain file`)
    if (user !== null) await file.chown(user.uid, user.gid)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/**
 * The last `count` lines of a log, oldest first, each cut at 4 KB; none when there is no log. Reads from the end and at
 * most 8 MB, so that fewer lines may come back.
 */
export async function readLastLines(path: string, count: number): Promise<string[]> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return []
  try {
    const stats = await file.stat()
    if (!stats.isFile() || count <= 0) return []
    const tail = await readTail(file, stats.size, count)
    return splitLines(tail).slice(-count).map(decodeLine)
  } finally {
    await file.close()
  }
}

/** Where the last `count` lines of a log begin, in bytes; 0 when there is no log. */
export async function positionOfLastLines(path: string, count: number): Promise<number> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return 0
  try {
    const stats = await file.stat()
    if (!stats.isFile()) return 0
    const tail = await readTail(file, stats.size, count)
    const lines = splitLines(tail)
    const skipped = lines.slice(0, Math.max(0, lines.length - count))
    return stats.size - tail.length + skipped.reduce((bytes, line) => bytes + line.length + 1, 0)
  } finally {
    await file.close()
  }
}

/** Some lines of a log, and where the next one begins. */
export interface LogPart {
  readonly lines: readonly { readonly text: string; readonly end: number }[]
  readonly next: number
}

/**
 * The whole lines from a position, in bytes, on, as many as 64 KB hold, each cut at 4 KB; none when there is nothing new. A
 * line without an end is left for later, unless it fills the 64 KB: then it counts as one.
 */
export async function readLinesFrom(path: string, position: number): Promise<LogPart> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return { lines: [], next: position }
  try {
    const stats = await file.stat()
    // An app can truncate its log; then what it writes is new from the beginning.
    const from = stats.size < position ? 0 : position
    if (!stats.isFile() || stats.size === from) return { lines: [], next: from }
    const { buffer, bytesRead } = await file.read(Buffer.alloc(CHUNK), 0, CHUNK, from)
    const chunk = buffer.subarray(0, bytesRead)
    const lastBreak = chunk.lastIndexOf(0x0a)
    const whole = lastBreak >= 0 ? chunk.subarray(0, lastBreak + 1) : bytesRead === CHUNK ? chunk : Buffer.alloc(0)
    let end = from
    const lines = splitLines(whole).map((line) => {
      end = Math.min(end + line.length + 1, from + whole.length)
      return { text: decodeLine(line), end }
    })
    return { lines, next: from + whole.length }
  } finally {
    await file.close()
  }
}

/** The end of a file that holds at least `lines` whole lines, or as much as is read at most. */
async function readTail(file: FileHandle, size: number, lines: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let breaks = 0
  let position = size
  // One break more than lines, as the last line ends in one and the first must be whole.
  while (position > 0 && breaks <= lines && size - position < LARGEST_TAIL) {
    const length = Math.min(CHUNK, position)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position - length)
    const chunk = buffer.subarray(0, bytesRead)
    chunks.unshift(chunk)
    for (const byte of chunk) if (byte === 0x0a) breaks += 1
    position -= length
  }
  return Buffer.concat(chunks)
}

function splitLines(text: Buffer): Buffer[] {
  const lines: Buffer[] = []
  let start = 0
  for (let end = text.indexOf(0x0a); end !== -1; end = text.indexOf(0x0a, start)) {
    lines.push(text.subarray(start, end))
    start = end + 1
  }
  if (start < text.length) lines.push(text.subarray(start))
  return lines
}

function decodeLine(line: Buffer): string {
  if (line.length <= LONGEST_LINE) return line.toString('utf8').replace(/\r$/, '')
  let end = LONGEST_LINE
  // Not in the middle of a character: its further bytes begin with the bits 10.
  while (end > LONGEST_LINE - 4 && ((line[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return `${line.toString('utf8', 0, end)}…`
}
