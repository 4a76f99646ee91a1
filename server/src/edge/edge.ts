import { rm } from 'node:fs/promises'
import { sleepUntilAborted } from '../platform/abort.ts'
import { exists } from '../platform/files.ts'
import { NotLeading } from '../platform/leadership/epoch.ts'
import { openExit } from '../platform/processes.ts'
import type { StopScope } from '../platform/startup/shutdown.ts'
import type { OsUser } from '../platform/users.ts'
import { adminAt } from './admin.ts'
import { type EdgeOptions, ensureEdge } from './ensure.ts'
import { edgeHome } from './home.ts'
import { reasonOf } from './problems.ts'
import { endCaddy } from './process.ts'
import { type EdgeRecord, findRunning } from './record.ts'

export type { EdgeOptions } from './ensure.ts'
export { edgeFindings } from './findings.ts'
export { edgeHome, makeHome as makeEdgeHome } from './home.ts'
export { type EdgeProcess, edgeProcesses } from './record.ts'

/** The edge of a server that leads: a Caddy that is kept running. */
export interface Edge {
  /** Ends the supervision; with `all`, Caddy as well. Otherwise it goes on, and the next server adopts it. */
  stop(scope: StopScope): Promise<void>
}

export interface Supervised extends EdgeOptions {
  /** Called with the problems of the edge, one sentence each; with none when it works. */
  readonly onProblems: (problems: readonly string[]) => void
}

const shortestPauseMs = 200
const longestPauseMs = 10_000
/** A Caddy that served so long did not end because of how it was started. */
const stableMs = 10_000
/** The longest time that the start of the server waits for the edge. */
const patienceMs = 10_000

/**
 * Adopts the Caddy that runs, or starts one, and keeps it running: one that ends or hangs is started again at once. Resolves
 * when it serves, or when the first attempt has failed; it is tried again until it works.
 */
export async function startEdge(options: Supervised): Promise<Edge> {
  const stopping = new AbortController()
  const tried = Promise.withResolvers<void>()
  const running = supervise(options, stopping.signal, tried.resolve)
  await Promise.race([tried.promise, sleepUntilAborted(patienceMs, stopping.signal)])
  return {
    async stop(scope) {
      stopping.abort(new Error('the server is stopping'))
      await running
      options.onProblems([])
      if (scope === 'all') await endEdge(options.dataDirectory, options.runAs?.user ?? null)
    },
  }
}

async function supervise(options: Supervised, signal: AbortSignal, onTried: () => void): Promise<void> {
  const { logger, config } = options
  let pauseMs = 0
  let told: string | null = null
  const tell = (problem: string | null): void => {
    if (problem !== null && problem !== told) logger.error(problem)
    told = problem
    options.onProblems(problem === null ? [] : [problem])
    onTried()
  }
  while (!signal.aborted) {
    const since = performance.now()
    try {
      const { record, problem } = await ensureEdge(options, signal)
      tell(problem)
      const reason = await untilOver(record, { signal, mostMs: problem === null ? undefined : longestPauseMs })
      if (reason !== null) logger.warn({ pid: record.pid, reason }, 'Caddy has ended; another one is started')
    } catch (error) {
      // The next leader has the edge, and this server soon hears of that.
      if (error instanceof NotLeading) return onTried()
      if (!signal.aborted) tell(`the edge does not run, so there is no HTTPS: ${await reasonOf(error, config)}`)
    }
    const wasStable = performance.now() - since >= stableMs
    pauseMs = wasStable ? 0 : Math.min(longestPauseMs, Math.max(shortestPauseMs, pauseMs * 2))
    if (pauseMs > 0) await sleepUntilAborted(pauseMs, signal)
  }
}

/** Ends all Caddys of a data directory; their requests may finish. Does nothing for one that never had any. */
export async function endEdge(dataDirectory: string, user: OsUser | null): Promise<void> {
  const home = edgeHome(dataDirectory)
  if (!(await exists(home.folder))) return
  const { current, others } = await findRunning(home, user)
  await Promise.all([...(current === null ? [] : [current]), ...others].map((each) => endCaddy(each)))
  await rm(home.record, { force: true })
}

/** A Caddy may be another process's child, of whose end nothing is told. */
const lookEveryMs = 100
const askEveryMs = 5_000
/** One that did not answer is asked again soon. */
const askAgainMs = 1_000
const answerMs = 5_000
/** A machine that is very busy may be late once or twice. */
const mostFailures = 3

/**
 * Watches a Caddy. Resolves with the reason when it has ended, or was ended because it did not answer several times; with
 * `null` when `signal` aborts, or after `mostMs`.
 */
async function untilOver(
  record: EdgeRecord,
  { signal, mostMs = Number.POSITIVE_INFINITY }: { readonly signal: AbortSignal; readonly mostMs?: number | undefined },
): Promise<string | null> {
  const exit = openExit(record)
  const asking = createAsking(record)
  const until = performance.now() + mostMs
  try {
    while (!signal.aborted && performance.now() < until) {
      if (exit.hasEnded()) return 'its process has ended'
      if (asking.failures() >= mostFailures) {
        await endCaddy(record, 0)
        return `it did not answer ${mostFailures} times`
      }
      await sleepUntilAborted(lookEveryMs, signal)
      asking.tick()
    }
    return null
  } finally {
    exit.close()
  }
}

/** Asks Caddy from time to time whether it is well. */
function createAsking({ admin: socket }: EdgeRecord) {
  const admin = adminAt(socket)
  let failures = 0
  let isAsking = false
  let next = performance.now() + askEveryMs
  const ask = async (): Promise<void> => {
    failures = (await admin.answers(answerMs)) ? 0 : failures + 1
    next = performance.now() + (failures === 0 ? askEveryMs : askAgainMs)
    isAsking = false
  }
  return {
    failures: () => failures,
    tick(): void {
      if (isAsking || performance.now() < next) return
      isAsking = true
      void ask()
    },
  }
}
