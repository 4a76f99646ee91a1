import { Readable } from 'node:stream'
import { notFound } from '../../../contract/errors.ts'
import { mostLogLines } from '../../../contract/logs.ts'
import type { QueryOutput } from '../../../contract/operations.ts'
import type { TextAnswer } from '../../../http/call.ts'
import type { TenantProject } from '../../../http/principal.ts'
import type { LogStore } from '../../../logs/log-store.ts'
import { createMaskerInTurns, type Masker } from '../../../logs/masking.ts'
import type { Database } from '../../../platform/database.ts'
import { waitingLine } from '../../release-log.ts'
import type { DeploymentStore } from '../../rows.ts'
import type { DeploymentSecrets } from '../../secrets.ts'
import type { DeploymentRow, DeploymentWithLatest } from '../../tables.ts'
import { type AppLog, findAppTail, followApp } from './app-follow.ts'
import { followLog, type LogFollower } from './follow.ts'
import { createFollowers } from './followers.ts'
import { eventOf, parseAppPositions, parsePositions } from './format.ts'
import { mergeLogs } from './merge.ts'
import { createLogReader, type DeploymentLogs, findTail, startOf, textBetween } from './read.ts'

export type LogsRequest = QueryOutput<'deployments.logs'> & { readonly lastEventId: string | undefined }

/**
 * The logs of deployments and apps, with the values of their variables masked. Reads of one log throw `not_found`; `follow` and
 * `followApp` throw `invalid_request` when the account follows as many logs as it may.
 */
export interface Logs {
  /**
   * Returns the last lines as text, those of the build first, then those of all instances in the order of their times; with
   * `since`, only those written then or later; with `process`, only those of a process type or an instance; with `timestamps`,
   * each after its time (RFC 3339; `-` where it is unknown), its stream and a blank; with `processes`, after its instance.
   */
  tail(project: TenantProject, id: string, wanted: LogsRequest): Promise<TextAnswer>
  /**
   * Streams the last lines, or those after `lastEventId`, and all that come, as server-sent events (WHATWG HTML, 9.2): a
   * message for each line, with `{"at","stream","process","text"}` as its data; the event `end` with `{"status"}` when no more will
   * come. Without it the stream ends when the client is gone or may not read the log any more.
   */
  follow(project: TenantProject, id: string, wanted: LogsRequest, follower: LogFollower): Promise<TextAnswer>
  /**
   * As `tail`, over the newest releases of an app, the oldest first: a line names each release before its lines.
   */
  tailApp(project: TenantProject, appId: string, wanted: LogsRequest): Promise<TextAnswer>
  /** As `follow`, over the newest releases of an app and those to come: the data of each message has its `deployment_id`. */
  followApp(project: TenantProject, appId: string, wanted: LogsRequest, follower: LogFollower): Promise<TextAnswer>
  /** Streams several logs as one, each as `follow` would. One that cannot be followed has an error in its place. */
  followSeveral(accountId: string, wanted: readonly WantedLog[], follower: LogFollower): TextAnswer
}

/** One log of several, from the line after `lastEventId` on. */
export type WantedLog = QueryOutput<'logs.follow'>['follow'][number]

export interface LogsDependencies {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'ofProjects' | 'releases' | 'rows'>
  readonly secrets: Pick<DeploymentSecrets, 'valuesOf'>
  readonly logs: Pick<LogStore, 'find' | 'read' | 'processes'>
  /** Returns how many logs an account may follow at once, on this server. */
  readonly mostFollowers: (accountId: string) => Promise<number>
  /** Resolves to the project if it belongs to the account, otherwise to `undefined`. */
  readonly findProject: (accountId: string, projectId: string) => Promise<TenantProject | undefined>
  /** Aborts when the server stops. */
  readonly stopping: AbortSignal
}

export function createLogs(dependencies: LogsDependencies): Logs {
  const { database, store, secrets, logs, stopping } = dependencies
  const followers = createFollowers(dependencies)

  const find = async (project: TenantProject, id: string): Promise<DeploymentWithLatest> => {
    const row = await store.ofProjects.get(database, project.id, id)
    if (row === undefined) throw notFound()
    return row
  }
  const logsOf = (row: DeploymentRow): DeploymentLogs => ({
    logs,
    name: { appId: row.app_id, deploymentId: row.id },
    masker: maskerOf(row),
  })
  /** The last masker is kept, because a log is mostly read more than once, and a masker can take longer to make than a log to read. */
  let last: { readonly key: string; readonly masker: Promise<Masker> } | undefined
  const maskerOf = (row: DeploymentRow): DeploymentLogs['masker'] => {
    let own: Promise<Masker> | undefined
    return () => {
      if (own !== undefined) return own
      const key = `${row.id} ${row.variables.toString('base64')}`
      if (last?.key !== key) last = { key, masker: createMaskerInTurns(secrets.valuesOf(row)) }
      own = last.masker
      return own
    }
  }

  async function* follow(row: DeploymentWithLatest, wanted: LogsRequest, follower: LogFollower) {
    const deployment = logsOf(row)
    const resumed = parsePositions(wanted.lastEventId)
    const positions = resumed ?? startOf(await findTail(deployment, wanted))
    const isOfBuild = wanted.stream !== 'runtime' && wanted.process === undefined
    if (row.expected_builds_before !== null && resumed === undefined && isOfBuild) {
      // There is no log yet that could say so.
      const [at, end] = [Date.now(), 0]
      yield eventOf(positions, 'build', { at, noted: at, text: waitingLine(row.expected_builds_before), end })
    }
    const statusNow = async () => {
      const now = await store.rows.find(row.id)
      // The password of a database may be rotated meanwhile.
      if (now?.variables.equals(row.variables) === false) deployment.masker = logsOf(now).masker
      return now?.status ?? 'deleted'
    }
    yield* followLog(createLogReader(deployment, wanted, positions), statusNow, wanted, follower)
  }

  const events = async (project: TenantProject, id: string, wanted: LogsRequest, follower: LogFollower) => {
    const row = await find(project, id)
    await followers.admit(project.accountId, follower.signal)
    return follow(row, wanted, follower)
  }

  const appLog = async (project: TenantProject, appId: string): Promise<AppLog<DeploymentRow>> => {
    const releases = () => store.releases.recent(project.id, appId, mostReleases)
    if ((await releases()).length === 0) throw notFound()
    return { releases, logsOf }
  }

  const appEvents = async (project: TenantProject, appId: string, wanted: LogsRequest, follower: LogFollower) => {
    const app = await appLog(project, appId)
    await followers.admit(project.accountId, follower.signal)
    return followApp(app, wanted, parseAppPositions(wanted.lastEventId), follower)
  }

  const untilStopping = ({ signal, mayGoOn }: LogFollower): LogFollower => ({
    signal: AbortSignal.any([signal, stopping]),
    mayGoOn,
  })

  return {
    async tail(project, id, wanted) {
      const deployment = logsOf(await find(project, id))
      return textAnswer(textBetween(deployment, await findTail(deployment, wanted), wanted))
    },

    follow: async (project, id, wanted, follower) =>
      eventAnswer(await events(project, id, wanted, untilStopping(follower))),

    tailApp: async (project, appId, wanted) => textAnswer(tailApp(await appLog(project, appId), wanted)),

    followApp: async (project, appId, wanted, follower) =>
      eventAnswer(await appEvents(project, appId, wanted, untilStopping(follower))),

    followSeveral(accountId, wanted, { signal: gone, mayGoOn }) {
      const open = wanted.map(({ projectId, id, lastEventId }) => async (ended: AbortSignal) => {
        const project = await dependencies.findProject(accountId, projectId)
        if (project === undefined) throw notFound()
        const follower = { signal: AbortSignal.any([gone, stopping, ended]), mayGoOn }
        const openOne = id.startsWith('app_') ? appEvents : events
        return openOne(project, id, { ...wholeLog, lastEventId }, follower)
      })
      return eventAnswer(mergeLogs(open))
    },
  }
}

const textAnswer = (text: AsyncGenerator<string, void>): TextAnswer => ({
  type: 'text/plain; charset=utf-8',
  body: Readable.from(text),
})

const eventAnswer = (events: AsyncGenerator<string, void>): TextAnswer => ({
  type: 'text/event-stream',
  // Proxies such as nginx keep an answer back until there is much of it, and those that compress it do, too.
  headers: { 'Cache-Control': 'no-store, no-transform', 'X-Accel-Buffering': 'no' },
  body: Readable.from(events),
})

/** The log of an app is that of its newest releases: each of them is read for every reader. */
const mostReleases = 10

async function* tailApp(app: AppLog<DeploymentRow>, wanted: LogsRequest): AsyncGenerator<string, void> {
  for (const { release, part } of await findAppTail(app, await app.releases(), wanted)) {
    if (part.lines === 0) continue
    yield `--- ${release.id} of ${release.created_at.toISOString()}${release.commit === null ? '' : `, commit ${release.commit.slice(0, 12)}`} ---\n`
    yield* textBetween(app.logsOf(release), part, wanted)
  }
}

/** As much of a log as one answer may have. */
const wholeLog = { tail: mostLogLines, timestamps: false, processes: false }
