import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { text } from 'node:stream/consumers'
import { endedOrAborted } from '../platform/abort.ts'
import { SYSTEM_FOLDERS } from '../platform/disk/folders.ts'
import { programFile } from '../platform/machine/own-files.ts'
import { killGroup, ShortageError, startProcess } from '../platform/processes.ts'
import { createSlots } from '../platform/slots.ts'
import type { PlanRequest } from './build-plan.ts'
import { failed, type PlanResult } from './result.ts'

/** Does as `planSource` does, in a process of its own. */
export interface PlanApart {
  /**
   * Begins a plan for one repository before that is there: its process starts meanwhile, as far as few others do.
   *
   * @param owner the account that the repository belongs to: accounts take turns
   */
  begin(owner: string): BegunPlan
}

export interface BegunPlan {
  /** Plans the repository in a folder. To be called once. Rejects with the signal's reason when it aborts. */
  finish(directory: string, request: PlanRequest, signal: AbortSignal): Promise<PlanResult>
  /** Ends the process where it was not needed. */
  end(): void
}

/** A large repository takes a second of the processor, which can be long on a busy machine. */
const mostSeconds = 60
const mostCpuSeconds = 20
const mostHeapMb = 256
/** Plans that are made at once. */
const mostPlans = 2
/** Processes that wait for their repository at once, and the time after which one is not used any more. */
const mostWaiting = 2
const waitingSeconds = 60
/** It ends before apps and builds when the machine is out of memory. */
const outOfMemoryScore = 700

const prlimit = '/usr/bin/prlimit'
/** The exit code of `timeout` for a command that SIGKILL has ended, unless it ends itself by that. */
const killed = 137
/**
 * Returns the words that limit CPU time, if the machine has the program. The limit sends its own signal, so that SIGKILL
 * comes from nobody but the kernel without memory.
 */
const cpuLimit = existsSync(prlimit) ? [prlimit, `--cpu=${mostCpuSeconds}:${mostCpuSeconds + 5}`, '--'] : []

/**
 * Makes the plans of repositories. Their texts are chosen by others, and what reads them can be made to take hours or all
 * memory. So it is a process that a limit of time ends, also without the server, while the server answers others. Each
 * repository has a process of its own, whose start takes longer than most plans do.
 *
 * @param seconds the most that one plan may take
 */
export function createPlanApart(seconds = mostSeconds): PlanApart {
  const slots = createSlots(mostPlans)
  let waiting = 0

  return {
    begin(owner) {
      let ahead = waiting < mostWaiting ? startPlanner(seconds) : null
      if (ahead !== null) waiting += 1
      const take = (): Planner | null => {
        const taken = ahead
        if (taken !== null) waiting -= 1
        ahead = null
        return taken
      }
      const end = () => take()?.kill()
      return {
        end,
        finish: (directory, request, signal) =>
          slots.use(owner, signal, async () => {
            if (ahead !== null && performance.now() - ahead.startedAt > waitingSeconds * 1000) end()
            const plan = (planner: Planner) => planBy(planner, [directory, request], seconds, signal)
            const planned = (await plan(take() ?? startPlanner(seconds))) ?? (await plan(startPlanner(seconds)))
            if (planned === null) throw new ShortageError('the machine has no memory for a plan')
            return planned
          }),
      }
    },
  }
}

/** A process that waits for a repository. */
interface Planner {
  readonly startedAt: number
  readonly child: ChildProcess
  /** Resolves at its end; rejects when it could not be started. */
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
    // A group of its own, so that both processes can be ended.
    { cwd: '/', env: { PATH: SYSTEM_FOLDERS.join(':') }, stdio: 'pipe', detached: true, outOfMemoryScore },
  )
  if (child.pid !== undefined) lowerPriority(child.pid)
  // It may have ended before it has read.
  child.stdin?.on('error', () => undefined)
  const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
  const streams = [child.stdout, child.stderr].map((stream) => (stream === null ? '' : text(stream)))
  const ended = Promise.all([closed, ...streams]).then(([[code, signal], output = '', errors = '']) => ({
    ...{ code, signal, output, errors },
  }))
  // Nobody waits for one that is not needed.
  ended.catch(() => undefined)
  return { startedAt: performance.now(), child, ended, kill: () => end(child) }
}

/** Resolves with null when the kernel has ended the process because the machine is out of memory: it chooses this one before all others. */
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
  // An error that nobody caught ends Node with 1; a limit does with the number of a signal.
  if (code === 1) throw new Error(`planning failed: ${errors.slice(0, 4_000)}`)
  if (!isStopped && (endedBy === 'SIGKILL' || code === killed)) return null
  return failed(
    'plan_too_large',
    `Fairlead read the files that say how the app is built for ${seconds} s, for ${mostCpuSeconds} s of the processor, or until they took more than ${mostHeapMb} MB of memory, and was not done. Make them smaller, such as package.json, requirements.txt or a Procfile, or name the app's folder by root.`,
  )
}

function end({ pid, exitCode, signalCode }: ChildProcess): void {
  // The number of one that has ended may be another's.
  if (pid !== undefined && exitCode === null && signalCode === null) killGroup(pid)
}

/** Lets apps come before a plan. */
function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // It has already ended.
  }
}
