import type { LogStream } from '../../logs/log-store.ts'
import type { LogLine } from '../../logs/reader.ts'

/** How far both logs of a deployment have been sent, in bytes. */
export type Positions = Record<LogStream, number>

/** An event's id: the positions after it. */
export const idOf = ({ build, runtime }: Positions): string => `${build}-${runtime}`

/** Reads an event's id; returns undefined for anything else. */
export function parsePositions(id: string | undefined): Positions | undefined {
  const [, build, runtime] = /^(\d{1,15})-(\d{1,15})$/.exec(id ?? '') ?? []
  return build === undefined || runtime === undefined ? undefined : { build: Number(build), runtime: Number(runtime) }
}

/** A line as text; with `timestamps` after its time (RFC 3339; `-` where it is unknown) and its stream. */
export function textOf(
  stream: LogStream,
  { at, text }: LogLine,
  { timestamps }: { readonly timestamps: boolean },
): string {
  return timestamps ? `${timeOf(at) ?? '-'} ${stream} ${text}\n` : `${text}\n`
}

/** A line as a server-sent event. */
export function eventOf(positions: Positions, stream: LogStream, line: LogLine): string {
  const data = { at: timeOf(line.at), stream, text: line.text }
  return `id: ${idOf(positions)}\ndata: ${JSON.stringify(data)}\n\n`
}

const timeOf = (at: LogLine['at']): string | null => (at === null ? null : new Date(at).toISOString())
