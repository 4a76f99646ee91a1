import { firstProcess, type LogStream } from '../../../logs/log-store.ts'
import type { LogLine } from '../../../logs/reader.ts'
import type { LogSource } from './merge-lines.ts'

/** How far the logs of a deployment have been sent, in bytes. */
export type Positions = Readonly<Record<LogSource, number>>

/** An event's id: the positions after it, of the build, of `web.1`, and of other instances by their names: `120-4711:worker:2:80`. */
export function idOf({ build = 0, [firstProcess]: first = 0, ...others }: Positions): string {
  const ofOthers = Object.entries(others).map(([process, position]) => `:${process.replace('.', ':')}:${position}`)
  return `${build}-${first}${ofOthers.join('')}`
}

/** Reads an event's id; returns undefined for anything else. */
export function parsePositions(id: string | undefined): Positions | undefined {
  const [, build, first, others] =
    /^(\d{1,15})-(\d{1,15})((?::[a-z][a-z0-9_-]{0,29}:\d{1,4}:\d{1,15})*)$/.exec(id ?? '') ?? []
  if (build === undefined || first === undefined || others === undefined) return undefined
  const known = [...others.matchAll(/:([^:]+):(\d+):(\d+)/g)]
  return {
    build: Number(build),
    [firstProcess]: Number(first),
    ...Object.fromEntries(known.map(([, type, number, position]) => [`${type}.${number}`, Number(position)])),
  }
}

/** The parts before each line of a text. */
export interface TextOptions {
  /** Its time (RFC 3339; `-` where it is unknown) and its stream. */
  readonly timestamps: boolean
  /** The instance that printed it, or `build`. */
  readonly processes: boolean
}

export function textOf(source: LogSource, { at, text }: LogLine, { timestamps, processes }: TextOptions): string {
  const time = timestamps ? `${timeOf(at) ?? '-'} ${streamOf(source)} ` : ''
  return `${time}${processes ? `${source} ` : ''}${text}\n`
}

const streamOf = (source: LogSource): LogStream => (source === 'build' ? 'build' : 'runtime')

/** Makes the server-sent event of a line. `positions` are those after it. */
export type FormatEvent = (positions: Positions, source: LogSource, line: LogLine) => string

/** A line as a server-sent event. */
export const eventOf: FormatEvent = (positions, source, line) =>
  `id: ${idOf(positions)}\ndata: ${JSON.stringify(dataOf(source, line))}\n\n`

function dataOf(source: LogSource, line: LogLine) {
  const stream = streamOf(source)
  return { at: timeOf(line.at), stream, process: stream === 'build' ? null : source, text: line.text }
}

/** The positions in the logs of one of an app's releases. */
export interface PartPosition {
  /** The id of the deployment. */
  readonly id: string
  readonly positions: Positions
}

/** A line of one release of an app as a server-sent event. Its id has the positions of all `parts`. */
export function appEventOf(parts: readonly PartPosition[], id: string, source: LogSource, line: LogLine): string {
  const data = { deployment_id: id, ...dataOf(source, line) }
  const ids = parts.map((part) => `${part.id}:${idOf(part.positions)}`)
  return `id: ${ids.join('.')}\ndata: ${JSON.stringify(data)}\n\n`
}

/** Reads the id of an event of an app's log: the positions by the id of the deployment. Returns undefined for anything else. */
export function parseAppPositions(id: string | undefined): ReadonlyMap<string, Positions> | undefined {
  const parts = (id ?? '').split('.').map((part) => /^(dep_\w{26}):(.*)$/.exec(part))
  const entries = parts.map((part) => [part?.[1] ?? '', parsePositions(part?.[2])] as const)
  const known = entries.filter((entry): entry is readonly [string, Positions] => entry[1] !== undefined)
  return known.length === entries.length ? new Map(known) : undefined
}

const timeOf = (at: LogLine['at']): string | null => (at === null ? null : new Date(at).toISOString())
