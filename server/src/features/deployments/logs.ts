import { Readable } from 'node:stream'
import type { DeploymentStatus } from '../../contract/deployments.ts'
import { ApiError, notFound } from '../../contract/errors.ts'
import { mostLogLines } from '../../contract/logs.ts'
import type { QueryOutput } from '../../contract/operations.ts'
import type { RequestFacts, TextAnswer } from '../../http/call.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { LogStore, LogStream } from '../../logs/log-store.ts'
import { createMaskerInTurns, type Masker } from '../../logs/masking.ts'
import { sleepUntilAborted } from '../../platform/abort.ts'
import type { Database } from '../../platform/database.ts'
import {
  appEventOf,
  createLogReader,
  type DeploymentLogs,
  eventOf,
  findTail,
  type LogReader,
  type Positions,
  parseAppPositions,
  parsePositions,
  startOf,
  type Tail,
  type TailRequest,
  textBetween,
  type WantedSources,
} from './log-lines.ts'
import { waitingLine } from './release-log.ts'
import type { DeploymentStore } from './rows.ts'
import type { DeploymentSecrets } from './secrets.ts'
import type { DeploymentRow, DeploymentWithLatest } from './tables.ts'

export type LogsRequest = QueryOutput<'deployments.logs'> & { readonly lastEventId: string | undefined }

/**
 * The logs of deployments and apps, with the values of their variables masked. Reads of one log throw `not_found`.
 * `follow` and `followApp` throw `invalid_request` when the account follows as many logs as it may.
 */
export interface Logs {
  /**
   * Returns the last lines as text: first the lines of the build, then the lines of all instances, ordered by time.
   * With `since`, only lines written at that time or later. With `process`, only lines of a process type or an
   * instance. With `timestamps`, each line begins with its time (RFC 3339; `-` where it is unknown), its stream and a
   * blank. With `processes`, it begins with its instance.
   */
  tail(project: TenantProject, id: string, wanted: LogsRequest): Promise<TextAnswer>
  /**
   * Streams the last lines, or the lines after `lastEventId`, and all new lines, as server-sent events (WHATWG HTML,
   * 9.2): a message for each line, with `{"at","stream","process","text"}` as its data, and the event `end` with
   * `{"status"}` when no more lines will come. The stream ends without `end` when the client is gone or may no longer
   * read the log.
   */
  follow(project: TenantProject, id: string, wanted: LogsRequest, follower: LogFollower): Promise<TextAnswer>
  /** Like `tail`, over the newest releases of an app, the oldest first: a line names each release before its lines. */
  tailApp(project: TenantProject, appId: string, wanted: LogsRequest): Promise<TextAnswer>
  /** Like `follow`, over the newest and all new releases of an app: messages also have their `deployment_id`. */
  followApp(project: TenantProject, appId: string, wanted: LogsRequest, follower: LogFollower): Promise<TextAnswer>
  /** Streams several logs as one, each like `follow`. A log that cannot be followed has an error in its place. */
  followSeveral(accountId: string, wanted: readonly WantedLog[], follower: LogFollower): TextAnswer
}

type WantedLog = QueryOutput<'logs.follow'>['follow'][number]

export interface LogsDependencies {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'ofProjects' | 'releases' | 'rows'>
  readonly secrets: Pick<DeploymentSecrets, 'valuesOf'>
  readonly logs: Pick<LogStore, 'find' | 'read' | 'processes'>
  readonly mostFollowers: (accountId: string) => Promise<number>
  /** Returns `undefined` when the project does not belong to the account. */
  readonly findProject: (accountId: string, projectId: string) => Promise<TenantProject | undefined>
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
  /**
   * The last masker. Most logs are read more than once, and the creation of a masker can take longer than reading a
   * log.
   */
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
      // No log exists yet.
      const [at, end] = [Date.now(), 0]
      yield eventOf(positions, 'build', { at, noted: at, text: waitingLine(row.expected_builds_before), end })
    }
    const statusNow = async () => {
      const now = await store.rows.find(row.id)
      // The password of a database may have been rotated since.
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
  // Proxies such as nginx buffer an answer; proxies that compress an answer buffer it, too.
  headers: { 'Cache-Control': 'no-store, no-transform', 'X-Accel-Buffering': 'no' },
  body: Readable.from(events),
})

/** The log of an app consists of its newest releases: every reader reads each of them. */
const mostReleases = 10

async function* tailApp(app: AppLog<DeploymentRow>, wanted: LogsRequest): AsyncGenerator<string, void> {
  for (const { release, part } of await findAppTail(app, await app.releases(), wanted)) {
    if (part.lines === 0) continue
    yield `--- ${release.id} of ${release.created_at.toISOString()}${release.commit === null ? '' : `, commit ${release.commit.slice(0, 12)}`} ---\n`
    yield* textBetween(app.logsOf(release), part, wanted)
  }
}

const wholeLog = { tail: mostLogLines, timestamps: false, processes: false }

interface Followers {
  /** Counts a client until its signal aborts. Throws `invalid_request` when the account has reached its limit. */
  admit(accountId: string, signal: AbortSignal): Promise<void>
}

function createFollowers(given: { readonly mostFollowers: (accountId: string) => Promise<number> }): Followers {
  const counts = new Map<string, number>()
  const add = (accountId: string, by: number) => {
    const count = (counts.get(accountId) ?? 0) + by
    if (count > 0) counts.set(accountId, count)
    else counts.delete(accountId)
  }
  return {
    async admit(accountId, signal) {
      const most = await given.mostFollowers(accountId)
      if (signal.aborted) return
      if ((counts.get(accountId) ?? 0) >= most) {
        throw new ApiError(
          'invalid_request',
          `The account follows ${most} logs at once, as many as it may on this server. Close one of them first.`,
          { limit: 'log_followers', most },
        )
      }
      add(accountId, 1)
      signal.addEventListener('abort', () => add(accountId, -1), { once: true })
    },
  }
}

type LogFollower = Pick<RequestFacts, 'signal' | 'mayGoOn'>

const pollMs = 250
/** The interval at which the status of the deployment and the client's permission are checked. */
const stateMs = 1_000
/** Something is sent at least this often, so that proxies do not close the connection. */
const silenceMs = 15_000

/**
 * Yields server-sent events: a message for each line, and the event `end` with the status when no more lines will come.
 * Ends without that event when the client is gone or may no longer read the log.
 */
async function* followLog(
  reader: LogReader,
  statusNow: () => Promise<DeploymentStatus | 'deleted'>,
  wanted: WantedSources,
  { signal, mayGoOn }: LogFollower,
): AsyncGenerator<string, void> {
  yield ': the log begins\n\n'
  let spokenAt = performance.now()
  let statusDueAt = 0
  let permissionDueAt = performance.now() + stateMs
  while (!signal.aborted) {
    if (performance.now() >= permissionDueAt) {
      // The key may be revoked, or the user signed out.
      if (!(await mayGoOn())) return
      permissionDueAt = performance.now() + stateMs
    }
    // Read before the log: everything that was printed before this state is in the file by then.
    const asks = performance.now() >= statusDueAt
    const status = asks ? await statusNow() : 'building'
    const isLast = isOver(status, wanted.stream)
    const { events, isMore } = await reader.next(isLast)
    if (events !== '') {
      yield events
      spokenAt = performance.now()
    }
    if (isMore) continue
    if (isLast) {
      yield `event: end\ndata: ${JSON.stringify({ status })}\n\n`
      return
    }
    if (asks) statusDueAt = performance.now() + stateMs
    if (performance.now() - spokenAt > silenceMs) {
      yield ':\n\n'
      spokenAt = performance.now()
    }
    await sleepUntilAborted(pollMs, signal)
  }
}

function isOver(status: DeploymentStatus | 'deleted', stream: LogStream | undefined): boolean {
  if (status === 'building') return false
  return stream === 'build' || status !== 'running'
}

type Release = Pick<DeploymentRow, 'id' | 'generation' | 'status' | 'variables'>

interface AppLog<Row extends Release = Release> {
  /** Reads the releases of the log, ordered by request. Empty once the app is deleted. */
  readonly releases: () => Promise<readonly Row[]>
  readonly logsOf: (release: Row) => DeploymentLogs
}

interface Part {
  readonly id: string
  readonly logs: DeploymentLogs
  variables: Buffer
  readonly reader: LogReader
  positions: Positions
  generation: number
  /** True when any of its lines may have been sent. */
  isBegun: boolean
  /** True when its log was read to the end once. From then on its lines mix with lines of other releases. */
  isCaughtUp: boolean
  /** True when the release was known to print no more before its log was read. */
  isOver: boolean
  /** True when the release prints no more and its log was read to the end. */
  isDone: boolean
}

/**
 * Yields server-sent events: a message for each line, release after release, then new lines of all running releases and
 * of new releases. An event's id has the positions in the logs of the newest release and of every release that may
 * print more. Ends with the event `end` when the app is deleted, and without it when the client is gone or may no
 * longer read the log.
 *
 * @param from the positions after the client's last event, by release; undefined for the last lines
 */
async function* followApp<Row extends Release>(
  app: AppLog<Row>,
  wanted: TailRequest,
  from: ReadonlyMap<string, Positions> | undefined,
  { signal, mayGoOn }: Pick<RequestFacts, 'signal' | 'mayGoOn'>,
): AsyncGenerator<string, void> {
  yield ': the log begins\n\n'
  const parts = createParts(app, wanted)
  let releases = await app.releases()
  await parts.begin(releases, from)
  let dueAt = performance.now() + stateMs
  let spokenAt = performance.now()
  while (!signal.aborted) {
    const { events, isMore } = await parts.next()
    if (events !== '' || performance.now() - spokenAt > silenceMs) {
      yield events === '' ? ':\n\n' : events
      spokenAt = performance.now()
    }
    if (performance.now() >= dueAt) {
      // The key may be revoked, or the user signed out.
      if (!(await mayGoOn())) return
      releases = await app.releases()
      parts.update(releases)
      dueAt = performance.now() + stateMs
    }
    if (releases.length === 0) {
      yield `event: end\ndata: ${JSON.stringify({ status: 'deleted' })}\n\n`
      return
    }
    if (!isMore) await sleepUntilAborted(pollMs, signal)
  }
}

function createParts<Row extends Release>(app: AppLog<Row>, wanted: TailRequest) {
  /** The releases by id, in the order of their lines. */
  const parts = new Map<string, Part>()

  const add = (release: Row, positions: Positions): void => {
    const { id, generation, status, variables } = release
    const logs = app.logsOf(release)
    const reader = createLogReader(logs, wanted, positions, (at, source, line) => {
      part.positions = { ...at }
      return appEventOf(namedOf([...parts.values()]), id, source, line)
    })
    const state = { isBegun: false, isCaughtUp: false, isOver: hasEnded(status), isDone: false }
    const part: Part = { id, generation, positions, logs, variables, reader, ...state }
    parts.set(id, part)
  }

  return {
    async begin(releases: readonly Row[], from: ReadonlyMap<string, Positions> | undefined): Promise<void> {
      const starts =
        from === undefined ? await tailOf(app, releases, wanted) : await resume(app, releases, wanted, from)
      for (const release of releases) add(release, starts.get(release.id) ?? nowhere)
    },

    update(releases: readonly Row[]): void {
      const byId = new Map(releases.map((release) => [release.id, release]))
      for (const part of parts.values()) renew(part, byId.get(part.id), app)
      for (const release of releases) if (!parts.has(release.id)) add(release, nowhere)
    },

    async next(): Promise<{ events: string; isMore: boolean }> {
      let events = ''
      let isMore = false
      for (const part of parts.values()) {
        if (part.isDone) continue
        const { isOver } = part
        part.isBegun = true
        const read = await part.reader.next(isOver)
        events += read.events
        if (read.isMore && !part.isCaughtUp) return { events, isMore: true }
        part.isCaughtUp = true
        part.isDone = isOver && !read.isMore
        isMore ||= read.isMore
      }
      return { events, isMore }
    },
  }
}

/** @param release the current release; undefined when the log no longer includes it, so it does not run */
function renew<Row extends Release>(part: Part, release: Row | undefined, app: AppLog<Row>): void {
  part.isOver = release === undefined || hasEnded(release.status)
  if (release === undefined) return
  // It was started again.
  if (part.generation !== release.generation) part.isDone = false
  part.generation = release.generation
  // The password of a database was rotated.
  if (!part.variables.equals(release.variables)) part.logs.masker = app.logsOf(release).masker
  part.variables = release.variables
}

/** The releases that may print more, and the newest release. A client has read all other releases to their ends. */
function namedOf(parts: readonly Part[]): readonly Part[] {
  const begun = parts.filter(({ isBegun }) => isBegun)
  return begun.filter((each) => !each.isDone || each === begun.at(-1))
}

const nowhere: Positions = { build: 0 }
const hasEnded = (status: Release['status']): boolean => status !== 'building' && status !== 'running'

type Starts = ReadonlyMap<string, Positions>

async function tailOf<Row extends Release>(
  app: AppLog<Row>,
  releases: readonly Row[],
  wanted: TailRequest,
): Promise<Starts> {
  return new Map((await findAppTail(app, releases, wanted)).map(({ release, part }) => [release.id, startOf(part)]))
}

async function findAppTail<Row extends Release>(app: AppLog<Row>, releases: readonly Row[], wanted: TailRequest) {
  const found: { readonly release: Row; readonly part: Tail }[] = []
  let left = wanted.tail
  for (const release of releases.toReversed()) {
    const part = await findTail(app.logsOf(release), { ...wanted, tail: left })
    found.unshift({ release, part })
    left -= part.lines
  }
  return found
}

/** A release that the client does not name is at its end if it is older than a release that the client names. */
async function resume<Row extends Release>(
  app: AppLog<Row>,
  releases: readonly Row[],
  wanted: TailRequest,
  from: Starts,
): Promise<Starts> {
  const newest = releases.findLastIndex(({ id }) => from.has(id))
  const starts = new Map<string, Positions>()
  for (const [index, release] of releases.entries()) {
    const tail = index < newest ? 0 : wanted.tail
    const resumed = from.get(release.id)
    starts.set(release.id, resumed ?? startOf(await findTail(app.logsOf(release), { ...wanted, tail })))
  }
  return starts
}

/**
 * Opens the events of one log. Throws an `ApiError` when the log cannot be followed. `ended` aborts when the reader
 * stops.
 */
type OpenLog = (ended: AbortSignal) => Promise<AsyncGenerator<string, void>>

interface Step {
  readonly index: number
  /** An event for the stream; `undefined` at the end of the log. */
  readonly event: string | undefined
}

/**
 * Yields the events of several logs as they come. The data of each event names its log by `index`, and has `events`, a
 * text of server-sent events, or an `error`. Ends when all logs have ended.
 */
async function* mergeLogs(logs: readonly OpenLog[]): AsyncGenerator<string, void> {
  const ended = new AbortController()
  const readers = logs.map((open, index) => readerOf(open, index, ended.signal))
  const steps = new Map<number, Promise<Step>>()
  const take = (index: number, step: Promise<Step>) => {
    // The error is thrown when the step's turn comes.
    step.catch(() => undefined)
    steps.set(index, step)
  }
  for (const [index, read] of readers.entries()) take(index, read())
  try {
    while (steps.size > 0) {
      const { index, event } = await Promise.race(steps.values())
      const read = readers[index]
      // Added again at the end, so that a busy log does not keep other logs waiting.
      steps.delete(index)
      if (event === undefined || read === undefined) continue
      take(index, read())
      yield event
    }
  } finally {
    ended.abort()
  }
}

function readerOf(open: OpenLog, index: number, streamEnded: AbortSignal): () => Promise<Step> {
  const ended = new AbortController()
  const opened = open(AbortSignal.any([streamEnded, ended.signal]))
  const over: Step = { index, event: undefined }
  let failed = false
  return async () => {
    if (failed) return over
    try {
      const next = await (await opened).next()
      if (next.done !== true) return { index, event: answerOf({ index, events: next.value }) }
      ended.abort()
      return over
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      failed = true
      return { index, event: answerOf({ index, ...error.toBody() }) }
    }
  }
}

const answerOf = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`
