import type { LogName, LogStore, LogStream } from '../../logs/log-store.ts'
import type { Masker } from '../../logs/masking.ts'
import { eventOf, idOf, type Positions, textOf } from './log-format.ts'

/** The logs of one deployment, with its secrets masked. */
export interface DeploymentLogs {
  readonly logs: Pick<LogStore, 'find' | 'read'>
  readonly name: Omit<LogName, 'stream'>
  readonly masker: Masker
}

export interface TailRequest {
  readonly tail: number
  /** RFC 3339. */
  readonly since?: string | undefined
  readonly stream?: LogStream | undefined
}

const streams: readonly LogStream[] = ['build', 'runtime']
const chosen = ({ stream }: { readonly stream?: LogStream | undefined }): LogStream[] =>
  streams.filter((one) => (stream ?? one) === one)

/** Finds where each stream begins so that together the last `tail` lines are read, and where it ends now. */
export async function findTail({ logs, name }: DeploymentLogs, wanted: TailRequest) {
  const since = wanted.since === undefined ? undefined : Date.parse(wanted.since)
  const starts: { stream: LogStream; position: number; end: number }[] = []
  let left = wanted.tail
  for (const stream of chosen(wanted).toReversed()) {
    const start = await logs.find({ ...name, stream }, { lines: left, since })
    starts.unshift({ stream, ...start })
    left -= start.lines
  }
  return starts
}

/** Yields the last lines as text, those of the build first. */
export async function* tailText(
  deployment: DeploymentLogs,
  wanted: TailRequest & { readonly timestamps: boolean },
): AsyncGenerator<string, void> {
  const { logs, name, masker } = deployment
  for (const { stream, position, end } of await findTail(deployment, wanted)) {
    for (let from = position; from < end; ) {
      const { lines, next } = await logs.read({ ...name, stream }, { from, masker, isFinal: true })
      const asked = lines.filter((line) => line.end <= end)
      if (asked.length > 0) yield asked.map((line) => textOf(stream, line, wanted)).join('')
      if (next <= from) break
      from = next
    }
  }
}

/** Reads on from positions. */
export interface LogReader {
  /** Returns what is new as events; `isMore` tells that there may be more at once. */
  next(isFinal: boolean): Promise<{ events: string; isMore: boolean }>
}

/** @param positions where to begin; not changed */
export function createLogReader(
  { logs, name, masker }: DeploymentLogs,
  wanted: { readonly stream?: LogStream | undefined },
  positions: Positions,
): LogReader {
  const at = { ...positions }
  return {
    async next(isFinal) {
      const before = idOf(at)
      let events = ''
      for (const stream of chosen(wanted)) {
        const part = await logs.read({ ...name, stream }, { from: at[stream], masker, isFinal })
        for (const line of part.lines) {
          at[stream] = line.end
          events += eventOf(at, stream, line)
        }
        at[stream] = part.next
      }
      // A position can move without an event: the rest of a long line is left out.
      return { events, isMore: before !== idOf(at) }
    },
  }
}
