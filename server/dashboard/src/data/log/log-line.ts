import { type LogLevel, levelOf } from './log-level.ts'

export type LogStream = 'build' | 'runtime'

/** The instance that an app has when it has no other. */
export const firstProcess = 'web.1'

/** True when lines are told apart by the instances that printed them. */
export const isNamed = (processes: readonly string[]): boolean => processes.some((name) => name !== firstProcess)

/** One line of a log. */
export interface LogLine {
  /** The time it was written; `null` when unknown. */
  readonly at: string | null
  readonly stream: LogStream
  /** The instance that printed it, such as `worker.2`; `null` for a line of the build. */
  readonly process: string | null
  readonly text: string
  readonly level: LogLevel
  /** Names the line in links: the same at each reading, also when lines before it are gone. `null` for a line without an id. */
  readonly key: string | null
  /** The deployment that printed it, in the log of an app. */
  readonly deploymentId: string | null
  /** True for the line that says where the lines of another release begin. */
  readonly isMark?: boolean
}

type LineData = Pick<LogLine, 'at' | 'stream' | 'process' | 'text' | 'deploymentId'>

/** Parses the data of an event, `{deployment_id, at, stream, process, text}`. Any other data becomes the text of the line. */
export function parseLogLine(data: string, id?: string): LogLine {
  try {
    const given = Object(JSON.parse(data)) as Readonly<Record<string, unknown>>
    const { at, stream, process, text, deployment_id } = given
    if (typeof text === 'string') {
      const hasTime = typeof at === 'string' && !Number.isNaN(Date.parse(at))
      const known = {
        at: hasTime ? at : null,
        stream: stream === 'runtime' ? 'runtime' : 'build',
        process: typeof process === 'string' ? process : null,
        deploymentId: typeof deployment_id === 'string' ? deployment_id : null,
      } as const
      return lineOf({ ...known, text }, id)
    }
  } catch {
    // Not JSON: a plain line.
  }
  return lineOf({ at: null, stream: 'build', process: null, text: data, deploymentId: null }, id)
}

function lineOf(line: LineData, id: string | undefined): LogLine {
  return { ...line, level: levelOf(line.text), key: keyOf(line, id) }
}

const positionOf = (process: string, positions = ''): string | undefined =>
  `${positions}:`.split(`:${process.replace('.', ':')}:`)[1]?.split(':')[0]

/**
 * The id of an event has the positions after it, in bytes, in the logs of the build, of `web.1` and of other instances:
 * `120-4711:worker:2:80`. In the log of an app it has those of several deployments, `dep_…:120-4711.dep_…:80-0`.
 */
function keyOf({ stream, process, deploymentId }: LineData, id = ''): string | null {
  const own = deploymentId === null ? id : id.split('.').find((part) => part.startsWith(`${deploymentId}:`))
  const [, build, first, others] = /^(?:dep_\w+:)?(\d+)-(\d+)((?::[\w-]+:\d+:\d+)*)$/.exec(own ?? '') ?? []
  const isOther = process !== null && process !== firstProcess
  const position = stream === 'build' ? build : isOther ? positionOf(process, others) : first
  if (position === undefined) return null
  return `${deploymentId === null ? '' : `${deploymentId}-`}${isOther ? process : stream}-${position}`
}
