import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { notFound } from '../contract/errors.ts'
import type { QueryOutput } from '../contract/operations.ts'
import type { TextAnswer } from '../http/call.ts'
import type { TenantProject } from '../http/principal.ts'
import type { Database } from '../platform/database.ts'
import { maskValues } from './masking.ts'
import type { Releases } from './releases.ts'
import type { LogStream, Runner } from './runner/runner.ts'
import type { DeploymentRow, DeploymentStore } from './store/store.ts'

export type LogsWanted = QueryOutput<'deployments.logs'> & { readonly lastEventId: string | undefined }

/** What deployments have written. The values of their variables are masked. Both throw `not_found`. */
export interface Logs {
  /** The last lines as text, those of the build first. */
  tail(project: TenantProject, id: string, wanted: LogsWanted): Promise<TextAnswer>
  /**
   * The last lines, or those after `lastEventId`, and all that come, as server-sent events (WHATWG HTML, 9.2): a message
   * for each line, with `{"stream","text"}` as its data; the event `end` with `{"status"}` when no more will come.
   */
  follow(project: TenantProject, id: string, wanted: LogsWanted, gone: AbortSignal): Promise<TextAnswer>
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

  async function* events(row: DeploymentRow, wanted: LogsWanted, signal: AbortSignal): AsyncGenerator<string, void> {
    const place = releases.placeOf(row)
    const secrets = releases.secretsOf(row)
    const followed = streams.filter((stream) => (wanted.stream ?? stream) === stream)
    const positions = parsePositions(wanted.lastEventId) ?? { build: 0, runtime: 0 }
    if (parsePositions(wanted.lastEventId) === undefined) {
      for (const stream of followed) positions[stream] = await runner.logPosition(place, stream, { lines: wanted.tail })
    }
    const news = async (): Promise<string> => {
      let text = ''
      for (const stream of followed) {
        const part = await runner.readLog(place, stream, positions[stream])
        for (const line of part.lines) {
          positions[stream] = line.end
          text += eventOf(positions, stream, maskValues(line.text, secrets))
        }
        positions[stream] = part.next
      }
      return text
    }

    yield ': the log begins\n\n'
    let spokenAt = performance.now()
    let askAt = 0
    while (!signal.aborted) {
      // Asked before the log is read: what it says at its end has been written by then.
      const status = performance.now() >= askAt ? ((await store.find(row.id))?.status ?? 'deleted') : 'building'
      const text = await news()
      if (text !== '') {
        yield text
        spokenAt = performance.now()
        continue
      }
      if (isOver(status, wanted.stream)) {
        yield `event: end\ndata: ${JSON.stringify({ status })}\n\n`
        return
      }
      if (performance.now() >= askAt) askAt = performance.now() + stateMs
      if (performance.now() - spokenAt > silenceMs) {
        yield ':\n\n'
        spokenAt = performance.now()
      }
      await sleep(pollMs, undefined, { signal }).catch(() => undefined)
    }
  }

  return {
    async tail(project, id, wanted) {
      const row = await find(project, id)
      const place = releases.placeOf(row)
      const lines: string[] = []
      for (const stream of streams) {
        if ((wanted.stream ?? stream) === stream) {
          lines.push(...(await runner.logs(place, stream, { lines: wanted.tail })))
        }
      }
      const last = wanted.tail === 0 ? [] : lines.slice(-wanted.tail)
      const text = last.map((line) => `${line}\n`).join('')
      return { type: 'text/plain; charset=utf-8', body: maskValues(text, releases.secretsOf(row)) }
    },

    async follow(project, id, wanted, gone) {
      const row = await find(project, id)
      const signal = AbortSignal.any([gone, parts.stopping])
      return { type: 'text/event-stream', body: Readable.from(events(row, wanted, signal)) }
    },
  }
}

function isOver(status: DeploymentRow['status'] | 'deleted', stream: LogStream | undefined): boolean {
  if (status === 'building') return false
  return stream === 'build' || status !== 'running'
}

type Positions = Record<LogStream, number>

/** An event's id says how far both logs have been told, in bytes. */
function eventOf(positions: Positions, stream: LogStream, text: string): string {
  return `id: ${positions.build}-${positions.runtime}\ndata: ${JSON.stringify({ stream, text })}\n\n`
}

function parsePositions(id: string | undefined): Positions | undefined {
  const [, build, runtime] = /^(\d{1,15})-(\d{1,15})$/.exec(id ?? '') ?? []
  return build === undefined || runtime === undefined ? undefined : { build: Number(build), runtime: Number(runtime) }
}
