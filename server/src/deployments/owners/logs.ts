import { Readable } from 'node:stream'
import { notFound } from '../../contract/errors.ts'
import type { QueryOutput } from '../../contract/operations.ts'
import type { RequestFacts, TextAnswer } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import { createMasker } from '../../logs/masking.ts'
import type { LogLine } from '../../logs/reader.ts'
import { sleepUntilAborted } from '../../platform/abort.ts'
import type { Database } from '../../platform/database.ts'
import type { LogStream, Runner } from '../../runtimes/runtime.ts'
import type { Releases } from '../state/releases.ts'
import type { DeploymentRow, DeploymentStore } from '../state/store.ts'

export type LogsWanted = QueryOutput<'deployments.logs'> & { readonly lastEventId: string | undefined }

/** Who follows a log. */
export type LogFollower = Pick<RequestFacts, 'signal' | 'mayGoOn'>

/** What deployments have written. The values of their variables are masked. Both throw `not_found`. */
export interface Logs {
  /**
   * The last lines as text, those of the build first; with `since`, only those written then or later; with `timestamps`,
   * each after its time (RFC 3339; `-` where it is not known), its stream and a blank.
   */
  tail(project: TenantProject, id: string, wanted: LogsWanted): Promise<TextAnswer>
  /**
   * The last lines, or those after `lastEventId`, and all that come, as server-sent events (WHATWG HTML, 9.2): a message
   * for each line, with `{"at","stream","text"}` as its data; the event `end` with `{"status"}` when no more will come.
   * Without it they break off when the client is gone or may not read them any more.
   */
  follow(project: TenantProject, id: string, wanted: LogsWanted, reader: LogFollower): Promise<TextAnswer>
}

const streams: readonly LogStream[] = ['build', 'runtime']
const pollMs = 250
/** How often the state is looked at while nothing new comes. */
const stateMs = 1_000
/** Something is sent at least this often, so that nobody on the way takes the connection for dead. */
const silenceMs = 15_000

export function createLogs(parts: {
  readonly database: Database
  readonly store: DeploymentStore
  readonly releases: Releases
  readonly runner: Runner
  /** Aborts when the server stops. */
  readonly stopping: AbortSignal
}): Logs {
  const { store, releases, runner } = parts

  const find = async (project: TenantProject, id: string): Promise<DeploymentRow> => {
    const row = await store.get(parts.database, project.id, id)
    if (row === undefined) throw notFound()
    return row
  }

  /** Where each stream begins, so that the last `tail` lines of them together are told, and where it ends now. */
  const begin = async (row: DeploymentRow, wanted: LogsWanted) => {
    const place = releases.placeOf(row)
    const since = wanted.since === undefined ? undefined : Date.parse(wanted.since)
    const starts: { stream: LogStream; position: number; end: number }[] = []
    let left = wanted.tail
    for (const stream of followed(wanted).toReversed()) {
      const start = await runner.logStart(place, stream, { lines: left, since })
      starts.unshift({ stream, ...start })
      left -= start.lines
    }
    return starts
  }

  async function* text(row: DeploymentRow, wanted: LogsWanted): AsyncGenerator<string, void> {
    const place = releases.placeOf(row)
    const masker = createMasker(releases.secretsOf(row))
    for (const { stream, position, end } of await begin(row, wanted)) {
      for (let from = position; from < end; ) {
        const { lines, next } = await runner.readLog(place, stream, { from, masker, isFinal: true })
        const asked = lines.filter((line) => line.end <= end)
        if (asked.length > 0) yield asked.map((line) => textOf(stream, line, wanted)).join('')
        if (next <= from) break
        from = next
      }
    }
  }

  async function* events(row: DeploymentRow, wanted: LogsWanted, reader: LogFollower): AsyncGenerator<string, void> {
    const { signal, mayGoOn } = reader
    const place = releases.placeOf(row)
    const masker = createMasker(releases.secretsOf(row))
    const positions = parsePositions(wanted.lastEventId) ?? { build: 0, runtime: 0 }
    if (parsePositions(wanted.lastEventId) === undefined) {
      for (const { stream, position } of await begin(row, wanted)) positions[stream] = position
    }
    const news = async (isFinal: boolean): Promise<string> => {
      let told = ''
      for (const stream of followed(wanted)) {
        const part = await runner.readLog(place, stream, { from: positions[stream], masker, isFinal })
        for (const line of part.lines) {
          positions[stream] = line.end
          told += eventOf(positions, stream, line)
        }
        positions[stream] = part.next
      }
      return told
    }

    yield ': the log begins\n\n'
    let spokenAt = performance.now()
    let askAt = 0
    let checkAt = performance.now() + stateMs
    while (!signal.aborted) {
      if (performance.now() >= checkAt) {
        // A key that was revoked, or a user who signed out, reads no further.
        if (!(await mayGoOn())) return
        checkAt = performance.now() + stateMs
      }
      // Asked before the log is read: what it says at its end has been written by then.
      const status = performance.now() >= askAt ? ((await store.find(row.id))?.status ?? 'deleted') : 'building'
      const isLast = isOver(status, wanted.stream)
      const before = idOf(positions)
      const told = await news(isLast)
      if (told !== '') {
        yield told
        spokenAt = performance.now()
      }
      // There may be more of a line that is left out.
      if (before !== idOf(positions)) continue
      if (isLast) {
        yield `event: end\ndata: ${JSON.stringify({ status })}\n\n`
        return
      }
      if (performance.now() >= askAt) askAt = performance.now() + stateMs
      if (performance.now() - spokenAt > silenceMs) {
        yield ':\n\n'
        spokenAt = performance.now()
      }
      await sleepUntilAborted(pollMs, signal)
    }
  }

  return {
    async tail(project, id, wanted) {
      const row = await find(project, id)
      return { type: 'text/plain; charset=utf-8', body: Readable.from(text(row, wanted)) }
    },

    async follow(project, id, wanted, { signal: gone, mayGoOn }) {
      const row = await find(project, id)
      const signal = AbortSignal.any([gone, parts.stopping])
      return { type: 'text/event-stream', body: Readable.from(events(row, wanted, { signal, mayGoOn })) }
    },
  }
}

function textOf(stream: LogStream, { at, text }: LogLine, { timestamps }: LogsWanted): string {
  return timestamps ? `${timeOf(at) ?? '-'} ${stream} ${text}\n` : `${text}\n`
}

const timeOf = (at: LogLine['at']): string | null => (at === null ? null : new Date(at).toISOString())

function isOver(status: DeploymentRow['status'] | 'deleted', stream: LogStream | undefined): boolean {
  if (status === 'building') return false
  return stream === 'build' || status !== 'running'
}

const followed = ({ stream }: LogsWanted): LogStream[] => streams.filter((one) => (stream ?? one) === one)

type Positions = Record<LogStream, number>

/** An event's id says how far both logs have been told, in bytes. */
const idOf = ({ build, runtime }: Positions): string => `${build}-${runtime}`

function eventOf(positions: Positions, stream: LogStream, line: LogLine): string {
  const data = { at: timeOf(line.at), stream, text: line.text }
  return `id: ${idOf(positions)}\ndata: ${JSON.stringify(data)}\n\n`
}

function parsePositions(id: string | undefined): Positions | undefined {
  const [, build, runtime] = /^(\d{1,15})-(\d{1,15})$/.exec(id ?? '') ?? []
  return build === undefined || runtime === undefined ? undefined : { build: Number(build), runtime: Number(runtime) }
}
