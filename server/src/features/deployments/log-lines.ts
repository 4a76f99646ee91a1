import { firstProcess, type LogName, type LogStore, type LogStream } from '../../logs/log-store.ts'
import { createMasker, type Masker } from '../../logs/masking.ts'
import type { LogLine, LogPart } from '../../logs/reader.ts'

export interface DeploymentLogs {
  readonly logs: Pick<LogStore, 'find' | 'read' | 'processes'>
  readonly name: Pick<LogName, 'appId' | 'deploymentId'>
  /** Makes the masker when it is first needed. Replaced when the secrets change while the log is followed. */
  masker: () => Promise<Masker>
}

/** The logs to read: all logs of a deployment, one stream, or the instances of a process type or one instance. */
export interface WantedSources {
  readonly stream?: LogStream | undefined
  /** The process type or the instance, such as `worker` or `worker.2`. */
  readonly process?: string | undefined
}

export interface TailRequest extends WantedSources {
  readonly tail: number
  readonly since?: string | undefined
}

const build: LogSource = 'build'

async function sourcesOf({ logs, name }: DeploymentLogs, { stream, process }: WantedSources): Promise<LogSource[]> {
  if (stream === 'build') return process === undefined ? [build] : []
  const instances = new Set([firstProcess, ...(await logs.processes(name))])
  const ofApp = [...instances].filter(
    (each) => process === undefined || each === process || each.startsWith(`${process}.`),
  )
  return stream === undefined && process === undefined ? [build, ...ofApp] : ofApp
}

const nameOf = ({ name }: DeploymentLogs, source: LogSource): LogName =>
  source === build ? { ...name, stream: 'build' } : { ...name, stream: 'runtime', process: source }

export interface Tail {
  readonly from: Positions
  readonly to: Positions
  readonly lines: number
}

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

/** The start positions of the logs; logs that were not requested start at 0. */
export const startOf = ({ from }: Pick<Tail, 'from'>): Positions => ({ [build]: 0, [firstProcess]: 0, ...from })

/** Yields the lines of a part as text, first the lines of the build. */
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

export interface LogReader {
  /** Returns new lines as events; `isMore` is true when more may be available at once. */
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
      // A position can move without an event: the rest of a long line is skipped.
      return { events, isMore: before !== idOf(at) }
    },
  }
}

/** The log of a line: `build`, or the instance that printed it, such as `worker.2`. */
type LogSource = string

interface SourceLine {
  readonly source: LogSource
  readonly line: LogLine
}

export interface SourcePart {
  readonly source: LogSource
  readonly from: number
  readonly part: LogPart
}

/**
 * Merges the lines of several logs by time; lines of the same time are in the order of the logs. A log that may have
 * more lines holds back later lines of the other logs: these are read again. Also returns the next position in each
 * log.
 */
export function mergeLines(parts: readonly SourcePart[]): {
  readonly lines: readonly SourceLine[]
  readonly next: Readonly<Record<LogSource, number>>
} {
  const timed = parts.map((each) => ({ ...each, lines: withTimes(each.part) }))
  const moved = timed.filter(({ from, part }) => part.next !== from)
  const limit = Math.min(...moved.map(({ lines }) => lines.at(-1)?.noted ?? -Infinity))
  const next: Record<LogSource, number> = {}
  const merged: (SourceLine & { readonly noted: number })[] = []
  for (const { source, from, part, lines } of timed) {
    const count = lines.findIndex(({ noted }) => noted > limit)
    const taken = count === -1 ? lines : lines.slice(0, count)
    next[source] = count === -1 ? part.next : (taken.at(-1)?.line.end ?? from)
    for (const { line, noted } of taken) merged.push({ source, line, noted })
  }
  return { lines: merged.sort((a, b) => a.noted - b.noted), next }
}

/** The times of lines never decrease within a log: a line without a time came after the previous line. */
function withTimes({ lines }: LogPart): { readonly line: LogLine; readonly noted: number }[] {
  let last = 0
  return lines.map((line) => {
    last = Math.max(last, line.noted)
    return { line, noted: last }
  })
}

export type Positions = Readonly<Record<LogSource, number>>

/**
 * Returns an event's id: the positions after it, of the build, of `web.1`, and of other instances by name, such as
 * `120-4711:worker:2:80`.
 */
function idOf({ build = 0, [firstProcess]: first = 0, ...rest }: Positions): string {
  const ofRest = Object.entries(rest).map(([process, position]) => `:${process.replace('.', ':')}:${position}`)
  return `${build}-${first}${ofRest.join('')}`
}

export function parsePositions(id: string | undefined): Positions | undefined {
  const [, build, first, rest] =
    /^(\d{1,15})-(\d{1,15})((?::[a-z][a-z0-9_-]{0,29}:\d{1,4}:\d{1,15})*)$/.exec(id ?? '') ?? []
  if (build === undefined || first === undefined || rest === undefined) return undefined
  const further = [...rest.matchAll(/:([^:]+):(\d+):(\d+)/g)]
  return {
    build: Number(build),
    [firstProcess]: Number(first),
    ...Object.fromEntries(further.map(([, type, number, position]) => [`${type}.${number}`, Number(position)])),
  }
}

interface TextOptions {
  /** Its time (RFC 3339; `-` where it is unknown) and its stream. */
  readonly timestamps: boolean
  readonly processes: boolean
}

function textOf(source: LogSource, { at, text }: LogLine, { timestamps, processes }: TextOptions): string {
  const time = timestamps ? `${timeOf(at) ?? '-'} ${streamOf(source)} ` : ''
  return `${time}${processes ? `${source} ` : ''}${text}\n`
}

const streamOf = (source: LogSource): LogStream => (source === 'build' ? 'build' : 'runtime')

type FormatEvent = (positions: Positions, source: LogSource, line: LogLine) => string

export const eventOf: FormatEvent = (positions, source, line) =>
  `id: ${idOf(positions)}\ndata: ${JSON.stringify(dataOf(source, line))}\n\n`

function dataOf(source: LogSource, line: LogLine) {
  const stream = streamOf(source)
  return { at: timeOf(line.at), stream, process: stream === 'build' ? null : source, text: line.text }
}

interface PartPosition {
  readonly id: string
  readonly positions: Positions
}

export function appEventOf(parts: readonly PartPosition[], id: string, source: LogSource, line: LogLine): string {
  const data = { deployment_id: id, ...dataOf(source, line) }
  const ids = parts.map((part) => `${part.id}:${idOf(part.positions)}`)
  return `id: ${ids.join('.')}\ndata: ${JSON.stringify(data)}\n\n`
}

export function parseAppPositions(id: string | undefined): ReadonlyMap<string, Positions> | undefined {
  const parts = (id ?? '').split('.').map((part) => /^(dep_\w{26}):(.*)$/.exec(part))
  const entries = parts.map((part) => [part?.[1] ?? '', parsePositions(part?.[2])] as const)
  const valid = entries.filter((entry): entry is readonly [string, Positions] => entry[1] !== undefined)
  return valid.length === entries.length ? new Map(valid) : undefined
}

const timeOf = (at: LogLine['at']): string | null => (at === null ? null : new Date(at).toISOString())
