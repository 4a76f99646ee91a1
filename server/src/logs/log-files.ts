import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { OsUser } from '../platform/users.ts'

const lineFeed = 0x0a
const chunk = 64 * 1024

/**
 * Opens a log for appending, to be handed to a child process as its output: the child writes on when the server is
 * gone. The file is the user's, because programs open `/dev/stdout` and `/dev/stderr` anew; nobody else may read it.
 * What is written begins on a line of its own.
 *
 * @throws Error when something other than a plain file lies there (an app could have put a link to a file of ours)
 */
export async function openLog(path: string, user: OsUser | null): Promise<FileHandle> {
  const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(path, flags, 0o600)
  try {
    const stats = await file.stat()
    if (!stats.isFile() || stats.nlink !== 1) throw new Error(`${path} is not a plain file`)
    if (user !== null) await file.chown(user.uid, user.gid)
    const last = stats.size > 0 ? await readAt(file, stats.size - 1, stats.size) : null
    if (last !== null && last[0] !== lineFeed) await file.write('\n')
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Gives a log to `use`; `none` when there is no plain file. */
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

/** The bytes of a file from one position to another, or as many as there are. */
export async function readAt(file: FileHandle, from: number, to: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.max(0, to - from)), 0, Math.max(0, to - from), from)
  return buffer.subarray(0, bytesRead)
}

/**
 * Where the last `count` lines before `end` begin, and how many there are; nothing before `start` is read.
 *
 * @param part.startsLine whether a line begins at `start`
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
      // The break at the very end belongs to the last line.
      if (bytes[at] !== lineFeed || from + at === end - 1) continue
      lines += 1
      if (lines === count) return { position: from + at + 1, lines }
    }
    to = from
  }
  return { position: start, lines: part.startsLine ? lines + 1 : lines }
}
