import { constants } from 'node:fs'
import { type FileHandle, open, rename, writeFile } from 'node:fs/promises'

/*
 * The times of a log's lines. Beside `runtime.log`, the file `runtime.times` is a list of marks. A mark is two
 * little-endian doubles: a size of the log, and the time when it grew to this size, in milliseconds of Unix time. The
 * time is negative when the log may have reached this size earlier. The first mark is the start of the readable part.
 */

export interface Mark {
  readonly end: number
  readonly at: number
  readonly isExact: boolean
}

export const markBytes = 16
const bufferedMarks = 256

const timesOf = (logPath: string): string => logPath.replace(/\.log$/, '.times')

/** Returns the first and the last mark, and their number; `null` without marks. */
export function readEnds(logPath: string): Promise<{ first: Mark; last: Mark; count: number } | null> {
  return withTimes(logPath, null, async (file, count) => {
    const [first] = await readMarks(file, 0, 1)
    const [last] = await readMarks(file, count - 1, 1)
    return first === undefined || last === undefined ? null : { first, last, count }
  })
}

export function readAllMarks(logPath: string): Promise<Mark[]> {
  return withTimes(logPath, [], (file, count) => readMarks(file, 0, count))
}

export function marksBetween(logPath: string, from: number, to: number): Promise<Mark[]> {
  return withTimes(logPath, [], async (file, count) => {
    const marks: Mark[] = []
    let next = await firstWhere(file, count, ({ end }) => end > from)
    while (next < count && (marks.at(-1)?.end ?? 0) < to) {
      marks.push(...(await readMarks(file, next, bufferedMarks)))
      next += bufferedMarks
    }
    return marks
  })
}

/**
 * Finds the position after which all bytes were written at `since` (milliseconds) or later; `null` without such bytes.
 */
export function positionSince(logPath: string, since: number): Promise<number | null> {
  return withTimes(logPath, null, async (file, count) => {
    // The first mark covers the freed part.
    const index = Math.max(1, await firstWhere(file, count, ({ at }) => at >= since))
    if (index >= count) return null
    const [before] = await readMarks(file, index - 1, 1)
    return before?.end ?? null
  })
}

export async function appendMark(logPath: string, mark: Mark): Promise<void> {
  const file = await open(
    timesOf(logPath),
    openFlags(constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT),
    0o600,
  )
  try {
    const { size } = await file.stat()
    // A crash may leave half a mark.
    if (size % markBytes !== 0) await file.truncate(size - (size % markBytes))
    await file.write(encode([mark]))
  } finally {
    await file.close()
  }
}

export async function replaceMarks(logPath: string, marks: readonly Mark[]): Promise<void> {
  const path = timesOf(logPath)
  await writeFile(`${path}.new`, encode(marks), { mode: 0o600 })
  await rename(`${path}.new`, path)
}

async function withTimes<Result>(
  logPath: string,
  none: Result,
  use: (file: FileHandle, count: number) => Promise<Result>,
): Promise<Result> {
  const file = await open(timesOf(logPath), openFlags(constants.O_RDONLY)).catch(() => null)
  if (file === null) return none
  try {
    const count = Math.floor((await file.stat()).size / markBytes)
    return count === 0 ? none : await use(file, count)
  } finally {
    await file.close()
  }
}

async function firstWhere(file: FileHandle, count: number, holds: (mark: Mark) => boolean): Promise<number> {
  let [low, high] = [0, count]
  while (low < high) {
    const middle = (low + high) >>> 1
    const [mark] = await readMarks(file, middle, 1)
    if (mark === undefined || holds(mark)) high = middle
    else low = middle + 1
  }
  return low
}

async function readMarks(file: FileHandle, index: number, count: number): Promise<Mark[]> {
  const { buffer, bytesRead } = await file.read(
    Buffer.alloc(count * markBytes),
    0,
    count * markBytes,
    index * markBytes,
  )
  return Array.from({ length: Math.floor(bytesRead / markBytes) }, (_, mark) => {
    const at = buffer.readDoubleLE(mark * markBytes + 8)
    return { end: buffer.readDoubleLE(mark * markBytes), at: Math.abs(at), isExact: at >= 0 }
  })
}

function encode(marks: readonly Mark[]): Buffer {
  const buffer = Buffer.alloc(marks.length * markBytes)
  marks.forEach(({ end, at, isExact }, index) => {
    buffer.writeDoubleLE(end, index * markBytes)
    buffer.writeDoubleLE(isExact ? at : -at, index * markBytes + 8)
  })
  return buffer
}

const openFlags = (flags: number): number => flags | constants.O_NOFOLLOW | constants.O_NONBLOCK
