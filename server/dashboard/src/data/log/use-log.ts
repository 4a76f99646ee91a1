import { ApiError } from '@fairlead/server/client'
import { useEffect, useState } from 'react'
import { api } from '../client.ts'
import { readEvents } from './follow-log.ts'
import { type LogLine, lineOf } from './log-line.ts'

export interface Log {
  /** The newest lines; those before them have been forgotten. */
  readonly lines: readonly LogLine[]
  /** The number of the first of them, counted from the first that was ever read. */
  readonly first: number
  /** Whether no further line will come. */
  readonly ended: boolean
  readonly error: unknown
}

const mostLines = 100_000
const showEveryMs = 100
/** After so long the page gets a turn, however much has come at once. */
const longestTurnMs = 8
const againMs = 2_000

/** Follows the log of a deployment, also over lost connections; what comes is shown ten times a second at most. */
export function useLog(projectId: string, deploymentId: string): Log {
  const [log, setLog] = useState<Log>({ lines: [], first: 0, ended: false, error: null })
  useEffect(() => {
    const stop = new AbortController()
    const lines: LogLine[] = []
    let forgotten = 0
    let changed = false
    const show = (ended: boolean, error: unknown) => {
      if (stop.signal.aborted || (!changed && !ended && error === null)) return
      changed = false
      const shown = lines.slice(-mostLines)
      setLog({ lines: shown, first: forgotten + lines.length - shown.length, ended, error })
    }
    const timer = setInterval(() => show(false, null), showEveryMs)
    void follow(
      projectId,
      deploymentId,
      stop.signal,
      (line) => {
        lines.push(line)
        // Cut seldom, because each cut moves all that is left.
        if (lines.length > 2 * mostLines) forgotten += lines.splice(0, lines.length - mostLines).length
        changed = true
      },
      (error) => show(false, error),
    ).then(
      () => {
        clearInterval(timer)
        show(true, null)
      },
      () => clearInterval(timer),
    )
    return () => {
      stop.abort()
      clearInterval(timer)
    }
  }, [projectId, deploymentId])
  return log
}

/** Resolves when the log has ended; rejects when it is not wanted any more. */
async function follow(
  projectId: string,
  deploymentId: string,
  signal: AbortSignal,
  take: (line: LogLine) => void,
  lost: (error: unknown) => void,
): Promise<void> {
  let last = ''
  for (;;) {
    try {
      const response = await api.deployments.logs({
        params: { project_id: projectId, id: deploymentId },
        query: { tail: String(mostLines) },
        headers: { accept: 'text/event-stream', ...(last !== '' && { 'last-event-id': last }) },
        signal,
      })
      if (response.body === null) return
      let turnBegan = performance.now()
      for await (const { event, data, id } of readEvents(response.body)) {
        if (event === 'end') return
        last = id
        take(lineOf(data))
        if (performance.now() - turnBegan < longestTurnMs) continue
        await new Promise((resolve) => setTimeout(resolve))
        turnBegan = performance.now()
      }
    } catch (error) {
      signal.throwIfAborted()
      lost(error)
      // What the server refuses once, such as the log of what is gone, it refuses again.
      if (error instanceof ApiError && error.status < 500) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, againMs))
    signal.throwIfAborted()
  }
}
