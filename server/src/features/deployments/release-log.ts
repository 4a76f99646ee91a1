import type { FileHandle } from 'node:fs/promises'
import type { LogName, LogStore, LogStream } from '../../logs/log-store.ts'
import { createMasker } from '../../logs/masking.ts'
import { sayAlive } from '../../platform/alive.ts'
import type { Handle, Release, ReleaseRef } from '../../runtimes/runtime.ts'
import type { JobTransitions } from './rows.ts'
import type { DeploymentGeneration } from './tables.ts'

export async function withBuildLog<T>(
  logs: Pick<LogStore, 'open' | 'record'>,
  { id, appId }: ReleaseRef,
  work: (output: FileHandle) => Promise<T>,
): Promise<T> {
  const log: LogName = { appId, deploymentId: id, stream: 'build' }
  const output = await logs.open(log)
  const ended = Promise.withResolvers<void>()
  try {
    await logs.record(log, ended.promise)
    return await work(output)
  } finally {
    ended.resolve()
    await output.close()
  }
}

/** Runs a part of a build. Notes in the log that it continues while nothing else is written there. */
export const inBuildLog = <T>(output: FileHandle, what: string, work: () => Promise<T>): Promise<T> =>
  sayAlive(
    {
      what,
      say: (line) => output.write(`${line}\n`),
      printed: async () => (await output.stat()).mtimeMs,
    },
    work,
  )

interface QueueNotes {
  note(before: number): void
  end(): Promise<void>
  /** Resolves when everything is written. Never rejects: a build does not depend on notes. */
  settle(): Promise<void>
}

export function createQueueNotes(
  jobs: Pick<JobTransitions, 'noteBuildsBefore'>,
  row: DeploymentGeneration,
  output: Pick<FileHandle, 'write'>,
): QueueNotes {
  // Written one after the other, so that an earlier number never replaces a later one.
  let written: Promise<unknown> | undefined
  const add = (work: () => Promise<unknown>) => {
    written = Promise.resolve(written)
      .then(work)
      .catch(() => undefined)
  }
  const settle = async () => {
    await written
  }
  return {
    note(before) {
      add(() => output.write(`${waitingLine(before)}\n`))
      add(() => jobs.noteBuildsBefore(row, before))
    },
    async end() {
      if (written === undefined) return
      add(() => jobs.noteBuildsBefore(row, null))
      await settle()
    },
    settle,
  }
}

/**
 * Returns a line that says how many builds precede a waiting build, but not whose builds. The action shows the line
 * outside the log.
 */
export const waitingLine = (before: number): string =>
  `Waiting for a build slot: ${before === 1 ? '1 build is' : `${before} builds are`} ahead.`

/** More than a failure shows: the reason may precede a long trace. */
const linesRead = 100

/**
 * Reads the last lines for the message of a failure, oldest first, with the values of the app's variables masked.
 *
 * @param part.logFrom the position at which the failed command's output begins
 */
export type LastLines = (
  release: Pick<Release, 'id' | 'appId' | 'variables'>,
  stream: LogStream,
  part: Pick<Handle, 'process' | 'logFrom'>,
) => Promise<string[]>

export function createLastLines(logs: Pick<LogStore, 'tail'>): LastLines {
  return ({ id, appId, variables }, stream, { process, logFrom = 0 }) =>
    logs.tail(
      { appId, deploymentId: id, stream, process },
      { lines: linesRead, masker: createMasker(Object.values(variables)), from: logFrom },
    )
}

export type NoteInLog = (release: ReleaseRef, stream: LogStream, sentence: string, process?: string) => Promise<void>

export function createNoteInLog(logs: Pick<LogStore, 'open'>): NoteInLog {
  return async ({ id, appId }, stream, sentence, process) => {
    await using output = await logs.open({ appId, deploymentId: id, stream, process })
    await output.write(`${sentence}\n`)
  }
}
