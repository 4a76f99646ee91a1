import type { LogStore, LogStream } from '../../../logs/log-store.ts'
import { createMasker } from '../../../logs/masking.ts'
import type { Handle, Release, ReleaseRef } from '../../../runtimes/runtime.ts'

/** More than a failure shows: the reason may come before a long trace. */
const linesRead = 100

/**
 * Reads the last lines for the message of a failure, oldest first, with the values of the app's variables masked.
 *
 * @param part.logFrom the position at which the output of what failed begins
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

/** Writes a sentence of Fairlead's own into a log that is being recorded. */
export type NoteInLog = (release: ReleaseRef, stream: LogStream, sentence: string, process?: string) => Promise<void>

export function createNoteInLog(logs: Pick<LogStore, 'open'>): NoteInLog {
  return async ({ id, appId }, stream, sentence, process) => {
    await using output = await logs.open({ appId, deploymentId: id, stream, process })
    await output.write(`${sentence}\n`)
  }
}
