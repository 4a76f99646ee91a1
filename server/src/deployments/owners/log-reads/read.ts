import { firstProcess, type LogName, type LogStore, type LogStream } from '../../../logs/log-store.ts'
import { createMasker, type Masker } from '../../../logs/masking.ts'
import { eventOf, type FormatEvent, idOf, type Positions, type TextOptions, textOf } from './format.ts'
import { type LogSource, mergeLines, type SourceLine } from './merge-lines.ts'

/** The logs of one deployment, with its secrets masked. */
export interface DeploymentLogs {
  readonly logs: Pick<LogStore, 'find' | 'read' | 'processes'>
  readonly name: Pick<LogName, 'appId' | 'deploymentId'>
  /** Makes the masker of its secrets when it is needed first. Replaced when the secrets change while the log is followed. */
  masker: () => Promise<Masker>
}

/** The lines to read: of all logs of a deployment, of a stream, or of the instances of a process type or one of them. */
export interface WantedSources {
  readonly stream?: LogStream | undefined
  /** Such as `worker` or `worker.2`. */
  readonly process?: string | undefined
}

export interface TailRequest extends WantedSources {
  readonly tail: number
  /** RFC 3339. */
  readonly since?: string | undefined
}

const build: LogSource = 'build'

async function sourcesOf({ logs, name }: DeploymentLogs, { stream, process }: WantedSources): Promise<LogSource[]> {
  if (stream === 'build') return process === undefined ? [build] : []
  const known = new Set([firstProcess, ...(await logs.processes(name))])
  const ofApp = [...known].filter((each) => process === undefined || each === process || each.startsWith(`${process}.`))
  return stream === undefined && process === undefined ? [build, ...ofApp] : ofApp
}

const nameOf = ({ name }: DeploymentLogs, source: LogSource): LogName =>
  source === build ? { ...name, stream: 'build' } : { ...name, stream: 'runtime', process: source }

/** A part of the logs of a deployment. */
export interface Tail {
  readonly from: Positions
  readonly to: Positions
  /** The number of lines in it. */
  readonly lines: number
}

/** Finds where each log begins so that together the last `tail` lines are read, and where it ends now. */
export async function findTail(deployment: DeploymentLogs, wanted: TailRequest): Promise<Tail> {
  const since = wanted.since === undefined ? undefined : Date.parse(wanted.since)
  const sources = await sourcesOf(deployment, wanted)
  const from: Record<LogSource, number> = {}
  const to: Record<LogSource, number> = {}
  const find = async (source: LogSource, lines: number): Promise<number> => {
    const found = await deployment.logs.find(nameOf(deployment, source), { lines, since })
    from[source] = found.position
    to[source] = found.end
    return found.lines
  }
  let ofApp = 0
  for (const source of sources) if (source !== build) ofApp += await find(source, wanted.tail)
  const surplus = Math.max(0, ofApp - wanted.tail)
  const begin = surplus === 0 ? from : await skip(deployment, { from, to }, surplus)
  const ofBuild = sources.includes(build) ? await find(build, wanted.tail - (ofApp - surplus)) : 0
  return { from: { ...from, ...begin }, to, lines: ofApp - surplus + ofBuild }
}

const noSecrets = async () => createMasker([])

/** Returns where the logs go on after so many lines, in the order of their times. */
async function skip(
  { logs, name }: DeploymentLogs,
  { from, to }: Pick<Tail, 'from' | 'to'>,
  count: number,
): Promise<Positions> {
  const at: Record<LogSource, number> = { ...from }
  let left = count
  for await (const lines of linesBetween({ logs, name, masker: noSecrets }, { from, to })) {
    for (const { source, line } of lines.slice(0, left)) at[source] = line.end
    left -= lines.length
    if (left <= 0) break
  }
  return at
}

/** Yields lines in the order of their times, some at once. */
async function* linesBetween(
  deployment: DeploymentLogs,
  { from, to }: Pick<Tail, 'from' | 'to'>,
): AsyncGenerator<readonly SourceLine[], void> {
  let at = from
  for (;;) {
    const before = at
    const open = Object.keys(at).filter((source) => (at[source] ?? 0) < (to[source] ?? 0))
    const { lines, next } = await readOn(deployment, open, at, { isFinal: true, to })
    at = { ...at, ...next }
    if (lines.length > 0) yield lines
    if (open.every((source) => at[source] === before[source])) return
  }
}

async function readOn(
  deployment: DeploymentLogs,
  sources: readonly LogSource[],
  at: Positions,
  { isFinal, to = {} }: { readonly isFinal: boolean; readonly to?: Positions },
) {
  const { logs } = deployment
  const masker = await deployment.masker()
  const parts = await Promise.all(
    sources.map(async (source) => {
      const from = at[source] ?? 0
      const part = await logs.read(nameOf(deployment, source), { from, masker, isFinal })
      const end = to[source] ?? Infinity
      return { source, from, part: { ...part, lines: part.lines.filter((line) => line.end <= end) } }
    }),
  )
  return mergeLines(parts)
}

/** The positions where the logs begin; those that were not asked for at their beginning. */
export const startOf = ({ from }: Pick<Tail, 'from'>): Positions => ({ [build]: 0, [firstProcess]: 0, ...from })

/** Yields the lines of a part as text, those of the build first. */
export async function* textBetween(
  deployment: DeploymentLogs,
  { from, to }: Tail,
  wanted: TextOptions,
): AsyncGenerator<string, void> {
  const { [build]: ofBuild, ...ofApp } = from
  for (const each of ofBuild === undefined ? [ofApp] : [{ [build]: ofBuild }, ofApp]) {
    for await (const lines of linesBetween(deployment, { from: each, to })) {
      yield lines.map(({ source, line }) => textOf(source, line, wanted)).join('')
    }
  }
}

/** Reads on from positions. */
export interface LogReader {
  /** Returns what is new as events; `isMore` tells that there may be more at once. */
  next(isFinal: boolean): Promise<{ events: string; isMore: boolean }>
}

/**
 * @param positions where to begin; not changed
 * @param format makes the event of a line
 */
export function createLogReader(
  deployment: DeploymentLogs,
  wanted: WantedSources,
  positions: Positions,
  format: FormatEvent = eventOf,
): LogReader {
  const at: Record<LogSource, number> = { ...positions }
  return {
    async next(isFinal) {
      const before = idOf(at)
      const { lines, next } = await readOn(deployment, await sourcesOf(deployment, wanted), at, { isFinal })
      let events = ''
      for (const { source, line } of lines) {
        at[source] = line.end
        events += format(at, source, line)
      }
      Object.assign(at, next)
      // A position can move without an event: the rest of a long line is left out.
      return { events, isMore: before !== idOf(at) }
    },
  }
}
