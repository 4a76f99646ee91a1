import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { text } from 'node:stream/consumers'
import { endedOrAborted } from '../platform/abort.ts'
import { SYSTEM_FOLDERS } from '../platform/disk/folders.ts'
import { programFile } from '../platform/package-files.ts'
import { killGroup, ShortageError, startProcess } from '../platform/processes.ts'
import { createSlots } from '../platform/slots.ts'
import type { PlanRequest } from './build-plan.ts'
import { failed, type PlanResult } from './result.ts'

export interface PlanApart {
  /**
   * Begins a plan before the repository is there. The process starts in the meantime, if not too many processes wait.
   *
   * @param owner the account of the repository: accounts take turns
   */
  begin(owner: string): BegunPlan
}

export interface BegunPlan {
  /** Plans the repository in a folder. Call it once. Rejects with the reason of the signal after an abort. */
  finish(directory: string, request: PlanRequest, signal: AbortSignal): Promise<PlanResult>
  end(): void
}

/** A large repository takes a second of CPU time, which can be long on a busy machine. */
const mostSeconds = 60
const mostCpuSeconds = 20
const mostHeapMb = 256
const mostPlans = 2
/** Processes that wait for a repository, and how long a waiting process is used. */
const mostWaiting = 2
const waitingSeconds = 60
/** When the machine is out of memory, the kernel ends a plan before apps and builds. */
const outOfMemoryScore = 700

const prlimit = '/usr/bin/prlimit'
/** The exit code of `timeout` after SIGKILL, unless `timeout` itself ends by it. */
const killed = 137
/** Limits CPU time by another signal, so SIGKILL comes only from a kernel without memory. */
const cpuLimit = existsSync(prlimit) ? [prlimit, `--cpu=${mostCpuSeconds}:${mostCpuSeconds + 5}`, '--'] : []

/**
 * Files of repositories are untrusted, and could make the parsers take hours or all memory. So each plan runs in a
 * process with a time limit that works even without the server, and the server stays responsive. Each repository has a
 * separate process, whose start takes longer than most plans.
 *
 * @param seconds the most that one plan may take
 */
export function createPlanApart(seconds = mostSeconds): PlanApart {
  const slots = createSlots(mostPlans)
  let waiting = 0

  return {
    begin(owner) {
      let early = waiting < mostWaiting ? startPlanner(seconds) : null
      if (early !== null) waiting += 1
      const take = (): Planner | null => {
        const taken = early
        if (taken !== null) waiting -= 1
        early = null
        return taken
      }
      const end = () => take()?.kill()
      return {
        end,
        finish: (directory, request, signal) =>
          slots.use(owner, signal, async () => {
            if (early !== null && performance.now() - early.startedAt > waitingSeconds * 1000) end()
            const plan = (planner: Planner) => planBy(planner, [directory, request], seconds, signal)
            const planned = (await plan(take() ?? startPlanner(seconds))) ?? (await plan(startPlanner(seconds)))
            if (planned === null) throw new ShortageError('the machine has no memory for a plan')
            return planned
          }),
      }
    },
  }
}

interface Planner {
  readonly startedAt: number
  readonly child: ChildProcess
  /** Rejects when the process could not start. */
  readonly ended: Promise<{
    readonly code: number | null
    readonly signal: NodeJS.Signals | null
    readonly output: string
    readonly errors: string
  }>
  kill(): void
}

function startPlanner(seconds: number): Planner {
  const limits = ['-s', 'KILL', String(waitingSeconds + seconds), ...cpuLimit]
  const child = startProcess(
    'timeout',
    [...limits, process.execPath, `--max-old-space-size=${mostHeapMb}`, programFile('planner')],
    // A process group, so that both processes can be killed.
    { cwd: '/', env: { PATH: SYSTEM_FOLDERS.join(':') }, stdio: 'pipe', detached: true, outOfMemoryScore },
  )
  if (child.pid !== undefined) lowerPriority(child.pid)
  // The process may end before it has read everything.
  child.stdin?.on('error', () => undefined)
  const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
  const streams = [child.stdout, child.stderr].map((stream) => (stream === null ? '' : text(stream)))
  const ended = Promise.all([closed, ...streams]).then(([[code, signal], output = '', errors = '']) => ({
    ...{ code, signal, output, errors },
  }))
  // An unused process has no caller that handles this error.
  ended.catch(() => undefined)
  return { startedAt: performance.now(), child, ended, kill: () => end(child) }
}

/** Resolves with null when the kernel has killed the process for lack of memory. */
async function planBy(
  { child, ended, kill }: Planner,
  input: readonly [directory: string, request: PlanRequest],
  seconds: number,
  signal: AbortSignal,
): Promise<PlanResult | null> {
  child.stdin?.end(JSON.stringify(input))
  const stop = AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000)])
  await endedOrAborted(ended, stop).catch(() => undefined)
  const isStopped = stop.aborted
  if (isStopped) kill()
  const {
    code,
    signal: endedBy,
    output,
    errors,
  } = await ended.catch((error: unknown) => {
    signal.throwIfAborted()
    throw error
  })
  signal.throwIfAborted()
  if (code === 0) return JSON.parse(output) as PlanResult
  // An uncaught error ends Node with 1; a limit ends it with the number of a signal.
  if (code === 1) throw new Error(`planning failed: ${errors.slice(0, 4_000)}`)
  if (!isStopped && (endedBy === 'SIGKILL' || code === killed)) return null
  return failed(
    'plan_too_large',
    `Fairlead read the files that say how the app is built for ${seconds} s, for ${mostCpuSeconds} s of the processor, or until they took more than ${mostHeapMb} MB of memory, and was not done. Make them smaller, such as package.json, requirements.txt or a Procfile, or name the app's folder by root.`,
  )
}

function end({ pid, exitCode, signalCode }: ChildProcess): void {
  // The pid of an ended process may belong to another.
  if (pid !== undefined && exitCode === null && signalCode === null) killGroup(pid)
}

function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // The process has ended.
  }
}
