import { Readable } from 'node:stream'
import { notFound } from '../../contract/errors.ts'
import type { QueryOutput } from '../../contract/operations.ts'
import type { TextAnswer } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { LogStore } from '../../logs/log-store.ts'
import { createMasker } from '../../logs/masking.ts'
import type { Database } from '../../platform/database.ts'
import type { DeploymentSecrets } from '../state/secrets.ts'
import type { DeploymentStore } from '../state/store.ts'
import type { DeploymentRow } from '../state/tables.ts'
import { followLog, type LogFollower } from './log-follow.ts'
import { type Positions, parsePositions } from './log-format.ts'
import { createLogReader, type DeploymentLogs, findTail, tailText } from './log-read.ts'

export type LogsRequest = QueryOutput<'deployments.logs'> & { readonly lastEventId: string | undefined }

/** The logs of deployments, with the values of their variables masked. Both methods throw `not_found`. */
export interface Logs {
  /**
   * Returns the last lines as text, those of the build first; with `since`, only those written then or later; with
   * `timestamps`, each after its time (RFC 3339; `-` where it is unknown), its stream and a blank.
   */
  tail(project: TenantProject, id: string, wanted: LogsRequest): Promise<TextAnswer>
  /**
   * Streams the last lines, or those after `lastEventId`, and all that come, as server-sent events (WHATWG HTML, 9.2): a
   * message for each line, with `{"at","stream","text"}` as its data; the event `end` with `{"status"}` when no more will
   * come. Without it the stream ends when the client is gone or may not read the log any more.
   */
  follow(project: TenantProject, id: string, wanted: LogsRequest, follower: LogFollower): Promise<TextAnswer>
}

export function createLogs(dependencies: {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'ofProjects' | 'rows'>
  readonly secrets: Pick<DeploymentSecrets, 'valuesOf'>
  readonly logs: Pick<LogStore, 'find' | 'read'>
  /** Aborts when the server stops. */
  readonly stopping: AbortSignal
}): Logs {
  const { database, store, secrets, logs, stopping } = dependencies

  const find = async (project: TenantProject, id: string): Promise<DeploymentRow> => {
    const row = await store.ofProjects.get(database, project.id, id)
    if (row === undefined) throw notFound()
    return row
  }
  const logsOf = (row: DeploymentRow): DeploymentLogs => ({
    logs,
    name: { appId: row.app_id, deploymentId: row.id },
    masker: createMasker(secrets.valuesOf(row)),
  })

  async function* follow(row: DeploymentRow, wanted: LogsRequest, follower: LogFollower) {
    const deployment = logsOf(row)
    const positions = parsePositions(wanted.lastEventId) ?? (await startOf(deployment, wanted))
    const statusNow = async () => (await store.rows.find(row.id))?.status ?? 'deleted'
    yield* followLog(createLogReader(deployment, wanted, positions), statusNow, wanted, follower)
  }

  return {
    async tail(project, id, wanted) {
      const row = await find(project, id)
      return { type: 'text/plain; charset=utf-8', body: Readable.from(tailText(logsOf(row), wanted)) }
    },

    async follow(project, id, wanted, { signal: gone, mayGoOn }) {
      const row = await find(project, id)
      const signal = AbortSignal.any([gone, stopping])
      return { type: 'text/event-stream', body: Readable.from(follow(row, wanted, { signal, mayGoOn })) }
    },
  }
}

async function startOf(deployment: DeploymentLogs, wanted: LogsRequest): Promise<Positions> {
  const positions: Positions = { build: 0, runtime: 0 }
  for (const { stream, position } of await findTail(deployment, wanted)) positions[stream] = position
  return positions
}
