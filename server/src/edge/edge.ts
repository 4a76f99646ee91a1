import { rm } from 'node:fs/promises'
import { sleepUntilAborted } from '../platform/abort.ts'
import { exists } from '../platform/files.ts'
import { NotLeading } from '../platform/leadership/epoch.ts'
import { openExit } from '../platform/processes.ts'
import type { StopScope } from '../platform/shutdown.ts'
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
export { edgeProcesses, endEdgeProcesses } from './record.ts'

/** Keeps a Caddy running while this server leads. */
export interface Edge {
  /** Ends the supervision. With `all` it also ends Caddy; otherwise the next server adopts Caddy. */
  stop(scope: StopScope): Promise<void>
}

export interface Supervised extends EdgeOptions {
  /** Called with one sentence for each problem, or with an empty list when the edge works. */
  readonly onProblems: (problems: readonly string[]) => void
}

const shortestPauseMs = 200
const longestPauseMs = 10_000
/** After this time of service, the start is not the reason why Caddy ended. */
const stableMs = 10_000
/** The longest time that the server's start waits for the edge. */
const patienceMs = 10_000

/**
 * Adopts the running Caddy or starts one. When Caddy ends or hangs, it is started again at once. Resolves when Caddy
 * serves, or when the first attempt has failed; further attempts follow.
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
      // The next leader controls the edge. This server soon learns about it.
      if (error instanceof NotLeading) return onTried()
      if (!signal.aborted) tell(`the edge does not run, so there is no HTTPS: ${await reasonOf(error, config)}`)
    }
    const wasStable = performance.now() - since >= stableMs
    pauseMs = wasStable ? 0 : Math.min(longestPauseMs, Math.max(shortestPauseMs, pauseMs * 2))
    if (pauseMs > 0) await sleepUntilAborted(pauseMs, signal)
  }
}

/** Ends all Caddy processes of a data directory; their requests may finish. */
export async function endEdge(dataDirectory: string, user: OsUser | null): Promise<void> {
  const home = edgeHome(dataDirectory)
  if (!(await exists(home.folder))) return
  const { current, others } = await findRunning(home, user)
  await Promise.all([...(current === null ? [] : [current]), ...others].map((each) => endCaddy(each)))
  await rm(home.record, { force: true })
}

/** The end of a Caddy that another process started causes no event. */
const lookEveryMs = 100
const askEveryMs = 5_000
const askAgainMs = 1_000
const answerMs = 5_000
/** Caddy is ended after this many missing answers. A busy machine may be late once or twice. */
const mostFailures = 3

/**
 * Watches a Caddy process. Resolves with the reason when it has ended, or was ended because it did not answer
 * repeatedly; with `null` when `signal` aborts, or after `mostMs`.
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
