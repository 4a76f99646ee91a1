import { type FileHandle, mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import type { Logger } from '../../../platform/logger.ts'
import type { Containers } from '../calls/containers.ts'
import type { Engine } from '../engine/engine.ts'
import { whenBack } from '../engine/patience.ts'
import { followOutput } from './follow.ts'
import { type OutputRecord, OutputTakenOver, openRecord } from './record.ts'

/** Writes the output of containers into logs, for as long as this server leads. */
export interface Outputs {
  /** Writes the output of a container into a log from now on, where an earlier server left it. The caller closes its own handle. */
  follow(container: string, output: FileHandle): Promise<void>
  /** Resolves for a container that has ended: to true when this server has written its output, all of it. */
  written(container: string): Promise<boolean>
  /** Adds a line of Fairlead's own to the log of a container whose output is being written. */
  note(container: string, line: string): Promise<void>
  /** Forgets how far the output of a container was written: the container is gone. */
  forget(container: string): Promise<void>
  /** Forgets all containers but those of a list. It is asked for second: one that is followed from now on is not forgotten. */
  keepOnly(list: () => Promise<ReadonlySet<string>>): Promise<void>
  /** Ends all writing, in the middle of the output. */
  close(): Promise<void>
}

export interface OutputsParts {
  readonly engine: Engine
  readonly containers: Pick<Containers, 'inspect'>
  /** A folder of their own. */
  readonly directory: string
  readonly fence: () => void
  readonly logger: Pick<Logger, 'warn'>
}

/** An engine that is away for longer is asked again later. */
const patienceMs = 3_600_000
/** The output of a container that has ended is written within this time, or the disk is full. */
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
    // Reserved before the first wait: an instance may be adopted twice at once.
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

/** Resolves when the output of a container that has ended is written, or when that takes too long. */
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

/** Begins to write. The end never rejects; it is true when everything was written. */
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
  // The same file under a descriptor of its own, which may be read as well.
  const log = await open(`/proc/self/fd/${output.fd}`, 'a+')
  const { dev, ino } = await log.stat()
  const record = await openRecord(path, log).catch(async (error: unknown) => {
    await log.close()
    throw error
  })
  // Several instances of a release share its log.
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
          logger.warn({ err: error, container }, 'the output of a container is not written any more')
        return false
      },
    )
    .finally(async () => {
      await record.close()
      await log.close()
    })
  return { ended, note: (line) => inTurn(async () => log.appendFile(`${line}\n`)) }
}

/** Another server writes from now on, also the output of all other containers. */
function mayWrite(fence: () => void, closing: AbortController): void {
  try {
    fence()
  } catch (error) {
    closing.abort()
    throw error
  }
}
