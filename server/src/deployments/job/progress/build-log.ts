import type { FileHandle } from 'node:fs/promises'
import type { LogName, LogStore } from '../../../logs/log-store.ts'
import { sayAlive } from '../../../platform/alive.ts'
import type { ReleaseRef } from '../../../runtimes/runtime.ts'

/** Does something that writes to the build log of a release, which is recorded meanwhile. */
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

/** Does a part of a build, and tells in its log that it goes on while nothing else is written there. */
export const inBuildLog = <T>(output: FileHandle, what: string, work: () => Promise<T>): Promise<T> =>
  sayAlive(
    {
      what,
      say: (line) => output.write(`${line}\n`),
      printed: async () => (await output.stat()).mtimeMs,
    },
    work,
  )
