import { createHash, randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createKeyedLock } from '../../platform/keyed-lock.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Containers } from './calls.ts'
import { type Engine, whenBack } from './client.ts'
import { isMissing } from './errors.ts'
import { beginning, countFrom, type Position, passedOf, sinceOf, unknown } from './output-position.ts'
import { type OutputFrame, readBatches } from './streams.ts'

/** Writes the output of containers into logs while this server leads. */
export interface Outputs {
  /** Writes a container's output into a log, from where an earlier server stopped. The caller closes its handle. */
  follow(container: string, output: FileHandle): Promise<void>
  /** For an ended container: resolves with true when this server has written its complete output. */
  written(container: string): Promise<boolean>
  /** Adds a line of Fairlead while the output is being written. */
  note(container: string, line: string): Promise<void>
  forget(container: string): Promise<void>
  /**
   * Removes the records of all containers outside of a list. The list is read second, so that containers followed from
   * now on keep their records.
   */
  keepOnly(list: () => Promise<ReadonlySet<string>>): Promise<void>
  /** Stops all writing, even in the middle of the output. */
  close(): Promise<void>
}

export interface OutputsParts {
  readonly engine: Engine
  readonly containers: Pick<Containers, 'inspect'>
  readonly directory: string
  readonly fence: () => void
  readonly logger: Pick<Logger, 'warn'>
}

/** The time to wait for an absent engine; a later request tries again. */
const patienceMs = 3_600_000
/** The time limit for the remaining output of an ended container; a full disk may prevent the write. */
const writtenMs = 10_000

export function createOutputs(parts: OutputsParts): Outputs {
  const { directory } = parts
  const followed = new Map<string, Followed>()
  const complete = new Set<string>()
  const closing = new AbortController()
  const oneAtATime = createKeyedLock()
  const recordOf = (container: string) => join(directory, container)

  const follow: Outputs['follow'] = async (container, output) => {
    if (followed.has(container) || complete.has(container) || closing.signal.aborted) return
    // Reserved before the first `await`, because two calls may adopt an instance at the same time.
    const { promise: ended, resolve } = Promise.withResolvers<void>()
    followed.set(container, { ended, note: async () => undefined })
    const end = (isComplete: boolean) => {
      followed.delete(container)
      if (isComplete) complete.add(container)
      resolve()
    }
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const begun = await begin(parts, container, output, { record: recordOf(container), closing, oneAtATime })
      followed.set(container, { ended, note: begun.note })
      void begun.ended.then(end)
    } catch (error) {
      end(false)
      throw error
    }
  }

  return {
    follow,

    async written(container) {
      await inTime(followed.get(container)?.ended)
      return complete.has(container)
    },

    note: async (container, line) => followed.get(container)?.note(line),

    async forget(container) {
      complete.delete(container)
      await rm(recordOf(container), { force: true })
    },

    async keepOnly(list) {
      const names = await readdir(directory).catch(() => [])
      const containers = await list()
      await Promise.all(
        names.filter((name) => !containers.has(name)).map((name) => rm(join(directory, name), { force: true })),
      )
    },

    async close() {
      closing.abort()
      await Promise.all([...followed.values()].map(({ ended }) => ended))
    },
  }
}

async function inTime(ended: Promise<void> | undefined): Promise<void> {
  const late = Promise.withResolvers<void>()
  const timer = setTimeout(late.resolve, writtenMs)
  await Promise.race([ended, late.promise])
  clearTimeout(timer)
}

interface Followed {
  readonly ended: Promise<void>
  readonly note: (line: string) => Promise<void>
}

/** Starts to write. The promise for the end never rejects; it is true when everything was written. */
async function begin(
  { engine, containers, fence, logger }: OutputsParts,
  container: string,
  output: FileHandle,
  {
    record: path,
    closing,
    oneAtATime,
  }: {
    readonly record: string
    readonly closing: AbortController
    readonly oneAtATime: ReturnType<typeof createKeyedLock>
  },
): Promise<{ readonly ended: Promise<boolean>; readonly note: Followed['note'] }> {
  const { signal } = closing
  // Opens the same file under a new descriptor that can also read.
  const log = await open(`/proc/self/fd/${output.fd}`, 'a+')
  const { dev, ino } = await log.stat()
  const record = await openRecord(path, log).catch(async (error: unknown) => {
    await log.close()
    throw error
  })
  // Several instances of a release share the log of the release.
  const inTurn = (write: () => Promise<void>): Promise<void> =>
    oneAtATime(`${dev}:${ino}`, () => {
      signal.throwIfAborted()
      mayWrite(fence, closing)
      return write()
    })
  const runs = async (): Promise<boolean> => {
    const found = await whenBack(() => containers.inspect(container), patienceMs, signal)
    return found?.State.Running === true
  }
  const append: OutputRecord['append'] = (piece, position) => inTurn(() => record.append(piece, position))
  const ended = followOutput({ engine, signal, runs, append }, container, record)
    .then(
      () => true,
      (error: unknown) => {
        if (!signal.aborted && !(error instanceof OutputTakenOver))
          logger.warn({ err: error, container }, 'the output of a container is no longer recorded')
        return false
      },
    )
    .finally(async () => {
      await record.close()
      await log.close()
    })
  return { ended, note: (line) => inTurn(async () => log.appendFile(`${line}\n`)) }
}

/** Another server writes from now on, also for all other containers. */
function mayWrite(fence: () => void, closing: AbortController): void {
  try {
    fence()
  } catch (error) {
    closing.abort()
    throw error
  }
}

const pauseMs = 200

/** The time that the engine puts before each frame: with nanoseconds, and of constant length. */
const timeBytes = '2026-01-31T12:00:00.000000000Z'.length
const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/

export interface FollowParts {
  readonly engine: Engine
  readonly runs: (signal: AbortSignal) => Promise<boolean>
  /** Appends to the log; rejects when another server has taken over. */
  readonly append: OutputRecord['append']
  readonly signal: AbortSignal
}

/**
 * Writes a container's output into its log, from the recorded position, until the end of the container and its output,
 * or an abort. Continues after a restart of the engine.
 */
async function followOutput(
  parts: FollowParts,
  container: string,
  record: Pick<OutputRecord, 'position'>,
): Promise<void> {
  const { runs, signal } = parts
  for (;;) {
    // Asked before the read: after a container's end, its complete output is available.
    const follow = await runs(signal)
    const isRead = await readOn(parts, container, record, follow).then(
      () => true,
      (error: unknown) => {
        signal.throwIfAborted()
        if (error instanceof OutputTakenOver) throw error
        return isMissing(error)
      },
    )
    if (isRead && !follow) return
    await sleep(pauseMs, undefined, { signal })
  }
}

/** Reads the output beyond the position. With `follow`, continues until the connection or the container ends. */
async function readOn(
  { engine, append, signal }: FollowParts,
  container: string,
  { position }: Pick<OutputRecord, 'position'>,
  follow: boolean,
): Promise<void> {
  const answer = await engine.open({
    method: 'GET',
    path: ['containers', container, 'logs'],
    query: { stdout: true, stderr: true, timestamps: true, follow, since: sinceOf(position) },
    signal,
  })
  try {
    let counter = countFrom(position)
    let toPass: number | null = null
    for await (const batch of readBatches(answer)) {
      const pieces: Buffer[] = []
      for (const { at, text } of batch.flatMap(timed)) {
        if (toPass === null) {
          toPass = passedOf(position, at)
          if (toPass === 0 && position[0]?.at !== '') counter = countFrom(unknown)
        }
        if (toPass > 0) {
          toPass -= 1
          continue
        }
        counter.pass(at)
        pieces.push(text)
      }
      if (pieces.length > 0) await append(Buffer.concat(pieces), counter.position())
    }
  } finally {
    answer.destroy()
  }
}

/**
 * Splits a frame into time and text. The engine reports its own problems in frames without a time; they are not output
 * of the app.
 */
function timed({ bytes }: OutputFrame): { at: string; text: Buffer }[] {
  const at = bytes.toString('latin1', 0, timeBytes)
  return isTime.test(at) ? [{ at, text: bytes.subarray(timeBytes + 1) }] : []
}

/**
 * Records the output position of a container. Each piece is recorded before the write, with its place in the log, so
 * that the successor of a killed server finds out whether the last piece was written.
 */
interface OutputRecord {
  readonly position: Position
  /** Appends a piece of output to the log. `position` is the position after the piece. */
  append(piece: Buffer, position: Position): Promise<void>
  close(): Promise<void>
}

/** Another server has opened the record and writes from now on. */
class OutputTakenOver extends Error {
  override readonly name = 'OutputTakenOver'
}

interface Noted {
  readonly writer: string
  readonly before: Position
  readonly after: Position
  /** The piece between the two positions; null before the first write. */
  readonly piece: { readonly at: number; readonly bytes: number; readonly hash: string } | null
}

/** Longer than every note, so that one write replaces all of an earlier note. */
const noteBytes = 1_024

/**
 * @param path the path of the record; made when it is missing
 * @param log open for reading and appending; during a call of `append`, nothing else appends to it except rare notes of
 *   the server
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
        // On an almost full disk, `write` may write less without an error.
        await log.appendFile(bytes)
      } catch (error) {
        // The next read delivers the whole piece again.
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
    // The record is new and empty.
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
