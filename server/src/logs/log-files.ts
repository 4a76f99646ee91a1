import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

const lineFeed = 0x0a
const chunk = 64 * 1024

/**
 * Opens a log for appending, to be given to a process as its output, which it keeps when the server ends. Only the owner
 * may read the file. New output begins on a line of its own.
 *
 * @throws Error when the path is not a plain file (an app could have put a link to a file of the server there)
 */
export async function openLog(path: string): Promise<FileHandle> {
  const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(path, flags, 0o600)
  try {
    const stats = await file.stat()
    if (!stats.isFile() || stats.nlink !== 1) throw new Error(`${path} is not a plain file`)
    const last = stats.size > 0 ? await readAt(file, stats.size - 1, stats.size) : null
    if (last !== null && last[0] !== lineFeed) await file.write('\n')
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Calls `use` with the open log. Returns `none` when there is no plain file. */
export async function withLog<Result>(
  path: string,
  none: Result,
  use: (file: FileHandle) => Promise<Result>,
): Promise<Result> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return none
  try {
    return (await file.stat()).isFile() ? await use(file) : none
  } finally {
    await file.close()
  }
}

/** Reads the bytes of a file from one position to another, or as many of them as exist. */
export async function readAt(file: FileHandle, from: number, to: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.max(0, to - from)), 0, Math.max(0, to - from), from)
  return buffer.subarray(0, bytesRead)
}

/**
 * Finds where the last `count` lines before `end` begin, and how many there are. Reads nothing before `start`.
 *
 * @param part.startsLine true when a line begins at `start`
 */
export async function lastLines(
  file: FileHandle,
  part: { readonly start: number; readonly end: number; readonly startsLine: boolean },
  count: number,
): Promise<{ position: number; lines: number }> {
  const { start, end } = part
  if (count <= 0 || end <= start) return { position: end, lines: 0 }
  let lines = 0
  for (let to = end; to > start; ) {
    const from = Math.max(start, to - chunk)
    const bytes = await readAt(file, from, to)
    for (let at = bytes.length - 1; at >= 0; at -= 1) {
      // The line feed at the very end belongs to the last line.
      if (bytes[at] !== lineFeed || from + at === end - 1) continue
      lines += 1
      if (lines === count) return { position: from + at + 1, lines }
    }
    to = from
  }
  return { position: start, lines: part.startsLine ? lines + 1 : lines }
}
