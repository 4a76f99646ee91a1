import type { LogStore, LogStream } from '../../logs/log-store.ts'
import { createMasker } from '../../logs/masking.ts'
import type { Release } from '../../runtimes/runtime.ts'
import { linesInFailure } from '../state/failure.ts'

/** Reads the lines that a failure ends with, oldest first, with the values of the app's variables masked. */
export type LastLines = (release: Pick<Release, 'id' | 'appId' | 'variables'>, stream: LogStream) => Promise<string[]>

export function createLastLines(logs: Pick<LogStore, 'tail'>): LastLines {
  return ({ id, appId, variables }, stream) =>
    logs.tail(
      { appId, deploymentId: id, stream },
      { lines: linesInFailure, masker: createMasker(Object.values(variables)) },
    )
}
