import { type Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { sleepUntilAborted } from '../../platform/abort.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { onceDatabaseIsBack } from '../../platform/leadership/leadership.ts'
import { createMarks, type Held } from '../../platform/marks.ts'
import {
  type AttachRequest,
  type Exit,
  type Handle,
  type Instances,
  type Release,
  RuntimeError,
} from '../../runtimes/runtime.ts'
import { beginRun, canceledOf, canceledProblem, endRun, noteRelease, type Outcome, runningRuns } from './runs.ts'
import type { RunRow } from './tables.ts'

/** The streams of a run. They stay open when it has ended. */
export interface RunStreams extends Pick<AttachRequest, 'onResizable'> {
  readonly stdin: Readable
  readonly stdout: Writable
  readonly stderr: Writable
  /** Ends the command: with the reason `Canceled`, or when the server stops. */
  readonly signal: AbortSignal
  /** Returns the masked output to store; without it, no output is stored. */
  readonly output?: (mask: (text: string) => string) => string
  readonly patienceMs?: number
}

export interface Executor {
  /** Runs a waiting command, and stores its end. The command's failure does not reject the promise. */
  execute(runId: string, streams: RunStreams): Promise<Outcome>
  /** Ends runs without an executor: their leader has ended, or their end could not be stored. */
  endLost(): Promise<void>
  /** Resolves when all running commands have ended, and their ends are stored. */
  idle(): Promise<void>
}

interface Target {
  readonly release: Release
  readonly handle: Handle
  readonly instances: Pick<Instances, 'attach'>
  /** Present for a stopped release: its instance ends after the command; a request for the release ends both. */
  readonly own?: { readonly signal: AbortSignal; readonly end: () => Promise<void> }
}

export interface ExecutorDependencies {
  readonly database: Database
  /** Returns the instance beside which commands of an app run; null when no instance runs and none may be started. */
  readonly findTarget: (appId: string, options: { readonly mayStart: boolean }) => Promise<Target | null>
  readonly mostMinutes: (accountId: string) => Promise<number>
  readonly mask: (text: string, secrets: readonly string[]) => string
  /** Called in the transaction in which a run ends. */
  readonly onEnd: (transaction: Transaction, run: RunRow, outcome: Outcome) => Promise<void>
  readonly watch: RunWatch
  readonly stopping: AbortSignal
}

export function createExecutor(dependencies: ExecutorDependencies): Executor {
  const { database, onEnd } = dependencies
  const end = (run: RunRow, outcome: Outcome) =>
    database.transaction().execute(async (transaction) => {
      if (await endRun(transaction, run.id, outcome)) await onEnd(transaction, run, outcome)
    })
  const marks = createMarks({
    marked: async () => (await runningRuns(database)).map(({ id }) => id),
    async release(ids) {
      const lost = (await runningRuns(database)).filter(({ id }) => ids.includes(id))
      for (const run of lost)
        await end(
          run,
          failed(
            'Nobody knows how the command ended, because the server or its database was not available at that time.',
          ),
        )
    },
  })
  const carryOut = async (held: Held, streams: RunStreams): Promise<Outcome> => {
    const run = await beginRun(database, held)
    if (run === undefined) return failed('It was ended before it began.')
    const outcome = await dependencies.watch
      .during(run, (ending) =>
        attempt(dependencies, run, { ...streams, signal: AbortSignal.any([ending, streams.signal]) }),
      )
      .catch((error: unknown) => failed(error instanceof RuntimeError ? error.message : notStarted))
    const store = () => end(run, outcome)
    await store().catch(() => onceDatabaseIsBack(store, dependencies.stopping))
    return outcome
  }
  const underWay = new Set<Promise<Outcome>>()
  return {
    execute(runId, streams) {
      const outcome = marks.during(runId, (held) => carryOut(held, streams))
      underWay.add(outcome)
      return outcome.finally(() => underWay.delete(outcome))
    },

    async idle() {
      await Promise.allSettled(underWay)
    },

    endLost: marks.sweep,
  }
}

const notStarted = 'The command could not be started; try again.'
const retryMs = 1_000

/** True when nothing was started, because the app does not run yet. */
const isNotRunning = (error: unknown): boolean => error instanceof RuntimeError && error.code === 'not_running'

async function attempt(dependencies: ExecutorDependencies, run: RunRow, streams: RunStreams): Promise<Outcome> {
  const minutes = await dependencies.mostMinutes(run.account_id)
  const late = AbortSignal.timeout(minutes * 60_000)
  const signal = AbortSignal.any([streams.signal, dependencies.stopping, late])
  const { exit, secrets, isReleaseTaken } = await attachWithPatience(dependencies, run, { ...streams, signal })
  // A terminal's output is the picture of a screen, and includes the user's input.
  const output =
    streams.output === undefined || run.terminal !== null
      ? {}
      : { output: streams.output((text) => dependencies.mask(text, secrets)) }
  if (isReleaseTaken) return { ...failed(releaseTaken, exit), status: 'canceled', ...output }
  if (exit !== null && !signal.aborted) return { ...ended(exit), ...output }
  if (late.aborted)
    return { ...failed(`It ran longer than ${minutes} minutes, the most of this account.`, exit), ...output }
  const { reason } = streams.signal
  return reason instanceof Canceled
    ? { ...failed(reason.message, exit), status: 'canceled', ...output }
    : { ...failed('The server was stopped during the command.', exit), ...output }
}

const releaseTaken = 'The stopped release that it ran in was started again, changed or removed.'

interface Attached {
  readonly exit: Exit | null
  readonly secrets: readonly string[]
  readonly isReleaseTaken?: boolean
}

/** Resolves with an `exit` of null when the signal aborts before the start. */
async function attachWithPatience(
  dependencies: ExecutorDependencies,
  run: RunRow,
  streams: RunStreams,
): Promise<Attached> {
  const deadline = performance.now() + (streams.patienceMs ?? 0)
  for (;;) {
    try {
      return await attachOnce(dependencies, run, streams)
    } catch (error) {
      if (streams.signal.aborted) return { exit: null, secrets: [] }
      if (!isNotRunning(error) || performance.now() >= deadline) throw error
      await sleepUntilAborted(retryMs, streams.signal)
    }
  }
}

async function attachOnce(
  { database, findTarget }: ExecutorDependencies,
  run: RunRow,
  streams: RunStreams,
): Promise<Attached> {
  // Schedules do not start an app that its owner has stopped.
  const isOneOff = run.schedule_id === null && run.due_at === null
  const target = await findTarget(run.app_id, { mayStart: isOneOff })
  if (target === null) throw new RuntimeError('not_running', isOneOff ? nothingKept : nothingRuns)
  const { release, handle, instances, own } = target
  try {
    await noteRelease(database, run.id, release.id)
    const signal = own === undefined ? streams.signal : AbortSignal.any([streams.signal, own.signal])
    const exit = await instances.attach(release, handle, { ...streams, signal, argv: run.command, tty: run.terminal })
    const isReleaseTaken = own?.signal.aborted === true && !streams.signal.aborted
    return { exit, secrets: Object.values(release.variables), isReleaseTaken }
  } finally {
    await own?.end()
  }
}

const nothingRuns = 'The app does not run, and commands run beside it: start or deploy it first.'
const nothingKept = 'The app does not run, and no release of it is kept: deploy it first.'

const ended = ({ code, signal, exceeded }: Exit): Outcome => ({
  status: code === 0 ? 'succeeded' : 'failed',
  exit_code: code,
  signal,
  problem: exceeded === null ? null : `It was ended by a limit: ${exceeded.code}.`,
})

const failed = (problem: string, exit: Exit | null = null): Outcome => ({
  status: 'failed',
  exit_code: exit?.code ?? null,
  signal: exit?.signal ?? null,
  problem,
})

export type FindValid = (ids: readonly string[]) => Promise<ReadonlySet<string>>

interface RunWatch {
  /** Runs `work` with a signal that aborts, with the reason `Canceled`, when the run must end. */
  during<Result>(run: RunRow, work: (signal: AbortSignal) => Promise<Result>): Promise<Result>
}

const lookMs = 1_000

/** @param dependencies.onError called when a check of the commands fails; the checks continue */
export function createRunWatch(dependencies: {
  readonly database: Database
  readonly findValid: FindValid
  readonly onError: (error: unknown) => void
}): RunWatch {
  const watched = new Map<string, Watched>()
  let looking = false

  const look = async (runs: readonly Watched[]): Promise<void> => {
    const canceled = await canceledOf(
      dependencies.database,
      runs.map(({ run }) => run.id),
    )
    const begunBy = [...new Set(runs.flatMap(({ run }) => run.begun_by ?? []))]
    const valid = begunBy.length === 0 ? new Set() : await dependencies.findValid(begunBy)
    for (const { run, ending } of runs) {
      if (canceled.has(run.id)) ending.abort(new Canceled(canceledProblem))
      else if (run.begun_by !== null && !valid.has(run.begun_by)) ending.abort(new Canceled(credentialEnded))
    }
  }
  const follow = async (): Promise<void> => {
    if (looking) return
    looking = true
    while (watched.size > 0) {
      await sleep(lookMs)
      await look([...watched.values()]).catch(dependencies.onError)
    }
    looking = false
  }

  return {
    async during(run, work) {
      const own = { run, ending: new AbortController() }
      // A ticket may outlive the key that made it.
      await look([own])
      watched.set(run.id, own)
      void follow()
      return work(own.ending.signal).finally(() => watched.delete(run.id))
    },
  }
}

interface Watched {
  readonly run: RunRow
  readonly ending: AbortController
}

const credentialEnded = 'The key or the session that began it has ended.'

const mostBytes = 64 * 1024
/** Longer than any secret in any form: without these bytes, the kept bytes could begin within a secret. */
const marginBytes = 1_024
const keptBytes = mostBytes + marginBytes
const mostChunks = 1_000

export interface Capture {
  keep(chunk: Buffer): void
  open(): Writable
  text(mask: (text: string) => string): string
}

export function createCapture(): Capture {
  let chunks: Buffer[] = []
  let length = 0
  let isCut = false
  const tidy = (): Buffer => {
    const all = Buffer.concat(chunks)
    isCut ||= all.length > keptBytes
    const kept = all.subarray(Math.max(0, all.length - keptBytes))
    chunks = [kept]
    length = kept.length
    return kept
  }
  const keep = (chunk: Buffer): void => {
    chunks.push(chunk)
    length += chunk.length
    if (length > 2 * keptBytes || chunks.length > mostChunks) tidy()
  }
  return {
    keep,
    open: () =>
      new Writable({
        write(chunk: Buffer, _encoding, written) {
          keep(chunk)
          written()
        },
      }),
    text(mask) {
      const masked = Buffer.from(mask(tidy().toString())).subarray(isCut ? marginBytes : 0)
      // Decoding makes invalid bytes longer.
      const shown = masked.subarray(-mostBytes).toString()
      // PostgreSQL stores no NUL.
      return (isCut || masked.length > mostBytes ? '…' : '') + shown.replaceAll('\0', '\ufffd')
    },
  }
}

/** The reason of a signal that ends a command for good. */
export class Canceled extends Error {
  override readonly name = 'Canceled'
}
