import { setTimeout as sleep } from 'node:timers/promises'
import { isRunning, sendSignal, startTimeOf } from '../../../platform/processes.ts'
import type { Container, ContainerState } from '../calls/types.ts'
import type { Engine } from '../engine/engine.ts'
import { EngineError } from '../engine/error.ts'
import { readFrames } from '../engine/streams.ts'

/** The check of its health that an image brings with it, its `HEALTHCHECK`. */
export interface OwnCheck {
  /** Returns null when it succeeds, or there is none; else what is wrong, as a clause. */
  problemOf(container: Container): Promise<string | null>
  forget(container: string): void
}

/** One that fails is tried again after this time. */
const pauseMs = 2_000
/** The longest time for which an observation waits for a check that is under way. */
const patienceMs = 2_000
/** As the engine does where the image names none. */
const defaultTimeoutMs = 30_000
const mostOutputBytes = 4_096

interface Asked {
  readonly answer: Promise<string | null>
  problem: string | null
}

/**
 * Runs the check of an image until the engine does: the engine's first one comes after the interval of the image, which is often
 * longer than an app may take to start.
 */
export function createOwnCheck(engine: Engine, fence: () => void): OwnCheck {
  const asked = new Map<string, Asked>()

  const ask = (container: Container): Asked => {
    const answer = run(engine, container).then(({ problem, hung }) => {
      current.problem = problem
      // The next one who asks begins another check.
      if (problem !== null) void pauseAfter(engine, hung).then(() => drop(container.Id, current))
      return problem
    })
    const current: Asked = { answer, problem: notYet }
    answer.catch(() => drop(container.Id, current))
    asked.set(container.Id, current)
    return current
  }
  const drop = (id: string, one: Asked): void => {
    if (asked.get(id) === one) asked.delete(id)
  }
  return {
    async problemOf(container) {
      const { Health } = container.State
      if (Health?.Status === 'unhealthy') return failureOf(Health)
      if (Health?.Status !== 'starting') return null
      fence()
      const current = asked.get(container.Id) ?? ask(container)
      await Promise.race([current.answer, sleep(patienceMs, undefined, { ref: false })])
      return current.problem
    },
    forget: (container) => void asked.delete(container),
  }
}

const notYet = 'the HEALTHCHECK of its image has not ended yet'

interface Result {
  readonly problem: string | null
  /** The id of a check that took too long; null for one that has ended. */
  readonly hung: string | null
}

/** Runs the check once, as the engine runs it. */
async function run(engine: Engine, { Id, Config }: Container): Promise<Result> {
  const { Test, Timeout = 0 } = Config.Healthcheck ?? {}
  const [form, ...words] = Test ?? []
  const shell = Config.Shell ?? ['/bin/sh', '-c']
  const body = {
    Cmd: form === 'CMD-SHELL' ? [...shell, ...words] : words,
    ...{ AttachStdout: true, AttachStderr: true },
  }
  const timeoutMs = Timeout === 0 ? defaultTimeoutMs : Timeout / 1e6
  const signal = AbortSignal.timeout(timeoutMs)
  let hung: string | null = null
  try {
    const path = ['containers', Id, 'exec']
    const { Id: id } = await engine.call<{ Id: string }>({ method: 'POST', path, body })
    hung = id
    const output = await outputOf(engine, id, signal)
    // The output ends with the request, too.
    signal.throwIfAborted()
    const { ExitCode } = await stateOf(engine, id)
    return { problem: ExitCode === 0 ? null : failed(ExitCode, output), hung: null }
  } catch (error) {
    if (signal.aborted) {
      if (hung !== null) await end(engine, hung).catch(() => undefined)
      return { problem: `the HEALTHCHECK of its image takes longer than ${timeoutMs / 1000} s`, hung }
    }
    // There is no such program, or the container has ended.
    if (error instanceof EngineError) return { problem: failed(null, error.detail), hung: null }
    throw error
  }
}

interface ExecState {
  readonly Running: boolean
  readonly ExitCode: number | null
  readonly Pid: number
}

const stateOf = (engine: Engine, id: string): Promise<ExecState> =>
  engine.call({ method: 'GET', path: ['exec', id, 'json'] })

/** Ends a check with its children, which the engine itself does not: they have a session of their own. */
async function end(engine: Engine, id: string): Promise<void> {
  const { Pid: pid } = await stateOf(engine, id)
  const startTime = startTimeOf(pid)
  // While it runs, the number is no other process's.
  if (startTime === null || pid <= 1 || !(await stateOf(engine, id)).Running) return
  if (isRunning({ pid, startTime })) sendSignal(-pid, 'SIGKILL')
}

/** Resolves when a check may begin again: not beside one that hangs and cannot be ended. */
async function pauseAfter(engine: Engine, hung: string | null): Promise<void> {
  do await sleep(pauseMs, undefined, { ref: false })
  while (hung !== null && (await stateOf(engine, hung).catch(() => null))?.Running === true)
}

async function outputOf(engine: Engine, id: string, signal: AbortSignal): Promise<string> {
  const path = ['exec', id, 'start']
  const answer = await engine.open({ method: 'POST', path, body: { Detach: false, Tty: false }, signal })
  let output = ''
  for await (const { bytes } of readFrames(answer)) if (output.length < mostOutputBytes) output += bytes.toString()
  return output
}

/** Says what the engine's own checks have found. */
export function failureOf({ Log }: NonNullable<ContainerState['Health']>): string {
  const last = Log?.at(-1)
  return failed(last?.ExitCode ?? null, last?.Output ?? '')
}

function failed(code: number | null, output: string): string {
  const [line = ''] = output.trim().split('\n').slice(-1)
  const said = line === '' ? '' : `: ${line}`
  return `the HEALTHCHECK of its image fails${code === null || code === -1 ? '' : ` with code ${code}`}${said}`
}
