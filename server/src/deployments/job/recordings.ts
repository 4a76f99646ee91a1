import type { LogName, LogStore } from '../../logs/log-store.ts'

/** Records each log for as long as an instance that prints to it lives: one may be started before the last one has ended. */
export interface Recordings {
  /** Begins to record, unless the log is recorded already; the returned function leaves it, and the last one ends it. */
  join(log: LogName): Promise<() => void>
}

interface Recording {
  users: number
  readonly ended: PromiseWithResolvers<void>
  readonly begun: Promise<void>
}

export function createRecordings(logs: Pick<LogStore, 'record'>): Recordings {
  const recordings = new Map<string, Recording>()
  const begin = (log: LogName): Recording => {
    const ended = Promise.withResolvers<void>()
    return { users: 0, ended, begun: logs.record(log, ended.promise) }
  }
  return {
    async join(log) {
      const key = `${log.appId} ${log.deploymentId} ${log.stream} ${log.process ?? ''}`
      const recording = recordings.get(key) ?? begin(log)
      recordings.set(key, recording)
      recording.users += 1
      const leave = (): void => {
        recording.users -= 1
        if (recording.users > 0) return
        if (recordings.get(key) === recording) recordings.delete(key)
        recording.ended.resolve()
      }
      await recording.begun.catch((error: unknown) => {
        leave()
        throw error
      })
      return leave
    },
  }
}
