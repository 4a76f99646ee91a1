import { useEffect, useState } from 'react'
import { api } from '../client.ts'
import { followLog } from './follow-log.ts'
import type { LogLine } from './log-line.ts'

export interface Log {
  /** The newest lines of the log. */
  readonly lines: readonly LogLine[]
  /** The number of the first line in `lines`, counted from the first line ever received. */
  readonly first: number
  /** True when no further line will come. */
  readonly ended: boolean
  readonly error: unknown
}

const maxLines = 100_000
const updateEveryMs = 100

/** Follows the log of a deployment, across lost connections. The page is updated at most ten times a second. */
export function useLog(projectId: string, deploymentId: string): Log {
  const [log, setLog] = useState<Log>({ lines: [], first: 0, ended: false, error: null })
  useEffect(() => {
    const controller = new AbortController()
    const buffer = createLineBuffer()
    const update = (ended: boolean, error: unknown) => {
      if (!controller.signal.aborted) setLog({ ...buffer.newest(), ended, error })
    }
    const timer = setInterval(() => buffer.changed() && update(false, null), updateEveryMs)
    void followLog({
      connect: (lastEventId) => requestLog(projectId, deploymentId, lastEventId, controller.signal),
      signal: controller.signal,
      onLine: buffer.add,
      onError: (error) => update(false, error),
    })
      .then(() => update(true, null))
      .catch(() => undefined)
      .finally(() => clearInterval(timer))
    return () => {
      controller.abort()
      clearInterval(timer)
    }
  }, [projectId, deploymentId])
  return log
}

function requestLog(projectId: string, id: string, lastEventId: string, signal: AbortSignal): Promise<Response> {
  return api.deployments.logs({
    params: { project_id: projectId, id },
    query: { tail: String(maxLines) },
    headers: { accept: 'text/event-stream', ...(lastEventId !== '' && { 'last-event-id': lastEventId }) },
    signal,
  })
}

/** Holds at least the newest `maxLines` lines. */
function createLineBuffer() {
  const lines: LogLine[] = []
  let removed = 0
  let changed = false
  return {
    add(line: LogLine): void {
      lines.push(line)
      // Lines are removed many at a time, because each removal moves all lines behind it.
      if (lines.length > 2 * maxLines) removed += lines.splice(0, lines.length - maxLines).length
      changed = true
    },
    /** True when lines were added since the last call of `newest`. */
    changed: () => changed,
    newest(): Pick<Log, 'lines' | 'first'> {
      changed = false
      const newest = lines.slice(-maxLines)
      return { lines: newest, first: removed + lines.length - newest.length }
    },
  }
}
