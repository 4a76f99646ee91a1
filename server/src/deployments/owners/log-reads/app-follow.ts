import type { RequestFacts } from '../../../http/call.ts'
import { sleepUntilAborted } from '../../../platform/abort.ts'
import type { DeploymentRow } from '../../tables.ts'
import { pollMs, silenceMs, stateMs } from './follow.ts'
import { appEventOf, type Positions } from './format.ts'
import {
  createLogReader,
  type DeploymentLogs,
  findTail,
  type LogReader,
  startOf,
  type Tail,
  type TailRequest,
} from './read.ts'

type Release = Pick<DeploymentRow, 'id' | 'generation' | 'status' | 'variables'>

/** One log of an app over its releases, the oldest first. */
export interface AppLog<Row extends Release = Release> {
  /** Reads the releases that the log is of, in the order in which they were wanted. None once the app is deleted. */
  readonly releases: () => Promise<readonly Row[]>
  readonly logsOf: (release: Row) => DeploymentLogs
}

/** A release whose log is being followed. */
interface Part {
  readonly id: string
  readonly logs: DeploymentLogs
  /** The encrypted variables that `logs` masks. */
  variables: Buffer
  readonly reader: LogReader
  /** As of the event that was read last. */
  positions: Positions
  generation: number
  /** True when any of its lines may have been sent. */
  isBegun: boolean
  /** True when its log was read to the end once: from then on its lines come between those of the others. */
  isCaughtUp: boolean
  /** True when it prints no more, as it was known before its log was read. */
  isOver: boolean
  /** True when it is over and its log was read to the end. */
  isDone: boolean
}

/**
 * Yields server-sent events: a message for each line, release after release, then of all that run as they come, and of new
 * releases. An event's id has the positions in the logs of the newest release and of those that may print more. Ends with the
 * event `end` when the app is deleted, and without it when the client is gone or may not read the log any more.
 *
 * @param from the positions after the last event that the client has, by the release; undefined for the last lines
 */
export async function* followApp<Row extends Release>(
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
      // A key that was revoked, or a user who signed out, reads no further.
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
  /** By the id of the release, in the order of their lines. */
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
    /** The releases as they are when the log is opened. */
    async begin(releases: readonly Row[], from: ReadonlyMap<string, Positions> | undefined): Promise<void> {
      const starts =
        from === undefined ? await tailOf(app, releases, wanted) : await resume(app, releases, wanted, from)
      for (const release of releases) add(release, starts.get(release.id) ?? nowhere)
    },

    /** The releases as they are now. */
    update(releases: readonly Row[]): void {
      const known = new Map(releases.map((release) => [release.id, release]))
      for (const part of parts.values()) renew(part, known.get(part.id), app)
      for (const release of releases) if (!parts.has(release.id)) add(release, nowhere)
    },

    /** Returns what is new as events, of one release after the other until all were read to their ends. */
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

/** @param release as it is now; undefined for one that is not among those of the log any more, and so does not run */
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

/** Those that may print more, and the newest: those before it that are not named were read to their ends. */
function namedOf(parts: readonly Part[]): readonly Part[] {
  const begun = parts.filter(({ isBegun }) => isBegun)
  return begun.filter((each) => !each.isDone || each === begun.at(-1))
}

const nowhere: Positions = { build: 0 }
const hasEnded = (status: Release['status']): boolean => status !== 'building' && status !== 'running'

type Starts = ReadonlyMap<string, Positions>

/** Finds where the last lines begin, those of the newest releases first. */
async function tailOf<Row extends Release>(
  app: AppLog<Row>,
  releases: readonly Row[],
  wanted: TailRequest,
): Promise<Starts> {
  return new Map((await findAppTail(app, releases, wanted)).map(({ release, part }) => [release.id, startOf(part)]))
}

/** Finds where each release begins so that together the last `tail` lines are read, in the order of the releases. */
export async function findAppTail<Row extends Release>(
  app: AppLog<Row>,
  releases: readonly Row[],
  wanted: TailRequest,
) {
  const found: { readonly release: Row; readonly part: Tail }[] = []
  let left = wanted.tail
  for (const release of releases.toReversed()) {
    const part = await findTail(app.logsOf(release), { ...wanted, tail: left })
    found.unshift({ release, part })
    left -= part.lines
  }
  return found
}

/** A release that the client does not name was read to its end when it is older than one that it names. */
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
    const known = from.get(release.id)
    starts.set(release.id, known ?? startOf(await findTail(app.logsOf(release), { ...wanted, tail })))
  }
  return starts
}
