import { useEffect, useState, useSyncExternalStore } from 'react'
import { onSessionChange, sessionsBegun } from '../session-end.ts'
import { followLog } from './follow-log.ts'
import { goesOn } from './log-level.ts'
import type { LogLine } from './log-line.ts'
import { openLog } from './open-log.ts'

export interface Log {
  /** The newest lines of the log. */
  readonly lines: readonly LogLine[]
  /** The number of the first line in `lines`, counted from the first line ever received. */
  readonly first: number
  /** The instances that have printed lines, in the order of their names. */
  readonly processes: readonly string[]
  /** True when no further line will come. */
  readonly ended: boolean
  readonly error: unknown
}

const maxLines = 100_000
const updateEveryMs = 100

/** Names the log of a deployment or of an app. */
export interface LogSource {
  readonly projectId: string
  /** `dep_…` or `app_…` */
  readonly id: string
}

/** Follows a log, across lost connections. The page is updated at most ten times a second. */
export function useLog({ projectId, id }: LogSource): Log {
  const [log, setLog] = useState<Log>({ lines: [], first: 0, processes: [], ended: false, error: null })
  // A log that was refused after the end of the session begins again with the next session.
  const session = useSyncExternalStore(onSessionChange, sessionsBegun)
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above.
  useEffect(() => {
    const controller = new AbortController()
    const buffer = createLineBuffer()
    const update = (ended: boolean, error: unknown) => {
      if (!controller.signal.aborted) setLog({ ...buffer.newest(), ended, error })
    }
    const timer = setInterval(() => buffer.changed() && update(false, null), updateEveryMs)
    void followLog({
      connect: (lastEventId) => openLog({ projectId, id, lastEventId, signal: controller.signal }),
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
  }, [projectId, id, session])
  return log
}

/** The line that marks the beginning of another release. */
const markBefore = (line: LogLine): LogLine => ({ ...line, text: '', level: 'info', key: null, isMark: true })

const sorted = (names: string[]): string[] => names.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))

/** Holds at least the newest `maxLines` lines. */
function createLineBuffer() {
  const lines: LogLine[] = []
  let processes: readonly string[] = []
  let removed = 0
  let changed = false
  return {
    add(line: LogLine): void {
      const before = lines.at(-1)
      // The calls of a trace have the level of their error.
      const isSameLog = before?.stream === line.stream && before.process === line.process
      const goesOnFrom = isSameLog && line.level === 'info' && goesOn(line.text) ? before : line
      if (line.process !== null && !processes.includes(line.process)) processes = sorted([...processes, line.process])
      if (line.deploymentId !== (before?.deploymentId ?? null)) lines.push(markBefore(line))
      lines.push({ ...line, level: goesOnFrom.level })
      // Lines are removed many at a time, because each removal moves all lines behind it.
      if (lines.length > 2 * maxLines) removed += lines.splice(0, lines.length - maxLines).length
      changed = true
    },
    /** True when lines were added since the last call of `newest`. */
    changed: () => changed,
    newest(): Pick<Log, 'lines' | 'first' | 'processes'> {
      changed = false
      const newest = lines.slice(-maxLines)
      return { lines: newest, first: removed + lines.length - newest.length, processes }
    },
  }
}
