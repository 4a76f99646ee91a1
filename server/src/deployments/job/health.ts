import { setTimeout as sleep } from 'node:timers/promises'
import type { Instance, InstanceState, Release, Runner } from '../../runtimes/runtime.ts'
import { DeploymentError, saidOf, withLastLines } from '../state/failure.ts'
import { isHealthy, probe } from './probe.ts'

export interface HealthOptions {
  /** Deadline for the first good answer. */
  readonly startTimeoutMs: number
  /** How long the app must stay up after it. */
  readonly stableMs: number
  /** What the app names as the path that tells its health. */
  readonly path: string | undefined
}

/** Most apps answer within the first second, and are looked at often then. */
const firstPauseMs = 25
const eagerMs = 1_000
const longestPauseMs = 200
const linesInFailure = 20

/**
 * Watches a started release from outside until it answers as a healthy app does and has stayed up for the stability
 * window. Gives the loopback address it answers on.
 * Rejects with a `DeploymentError` at once when it exits, and at the deadline when it does not answer.
 */
export async function untilHealthy(
  runner: Runner,
  release: Pick<Release, 'logDirectory' | 'limits' | 'variables'>,
  instance: Instance,
  options: HealthOptions,
  signal: AbortSignal,
): Promise<{ host: string }> {
  const begun = performance.now()
  const deadline = begun + options.startTimeoutMs
  const lastLines = () => runner.logs(release, 'runtime', { lines: linesInFailure })
  let pause = firstPauseMs
  let seen: InstanceState = { state: 'starting' }
  let answer: string | undefined

  while (performance.now() < deadline) {
    signal.throwIfAborted()
    seen = await runner.inspect(instance)
    if (seen.state === 'exited') throw exited(release, seen, 'before it answered', await lastLines())
    if (seen.state === 'listening') {
      answer = await lookAt(seen.host, instance.port, options.path, signal)
      if (answer === 'healthy') {
        await untilStable(runner, release, instance, options.stableMs, lastLines, signal)
        return { host: seen.host }
      }
    }
    await sleep(pause, undefined, { signal })
    if (performance.now() - begun > eagerMs) pause = Math.min(pause * 1.5, longestPauseMs)
  }
  throw neverHealthy(seen, answer, instance, options, await lastLines())
}

/** `healthy`, or why not. */
async function lookAt(
  host: string,
  port: number,
  healthPath: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  const path = healthPath ?? '/'
  try {
    const { status } = await probe({ host, port, path, headers: { 'user-agent': 'fairlead-health' } }, signal)
    return isHealthy(status, healthPath) ? 'healthy' : `the last answer on ${path} had status ${status}`
  } catch (error) {
    signal.throwIfAborted()
    return `the last request to ${path} got no answer (${error instanceof Error ? error.message : error})`
  }
}

async function untilStable(
  runner: Runner,
  release: Pick<Release, 'limits'>,
  instance: Instance,
  stableMs: number,
  lastLines: () => Promise<string[]>,
  signal: AbortSignal,
): Promise<void> {
  const end = performance.now() + stableMs
  while (performance.now() < end) {
    await sleep(Math.min(firstPauseMs * 2, Math.max(1, end - performance.now())), undefined, { signal })
    const seen = await runner.inspect(instance)
    if (seen.state === 'exited') throw exited(release, seen, 'right after its first answer', await lastLines())
  }
}

function exited(
  { limits }: Pick<Release, 'limits'>,
  seen: Extract<InstanceState, { state: 'exited' }>,
  when: string,
  lines: string[],
): DeploymentError {
  if (seen.exceeded !== null) {
    return new DeploymentError('start', seen.exceeded, withLastLines(saidOf(seen.exceeded, 'app', limits), lines))
  }
  const how = seen.signal === null ? (seen.code === null ? '' : ` with code ${seen.code}`) : ` by ${seen.signal}`
  return new DeploymentError(
    'start',
    'app_exited',
    withLastLines(`The app ended${how} ${when}. Put right what its output says.`, lines),
  )
}

function neverHealthy(
  seen: InstanceState,
  answer: string | undefined,
  instance: Instance,
  options: HealthOptions,
  lines: string[],
): DeploymentError {
  const within = `within ${options.startTimeoutMs / 1000} s`
  if (seen.state === 'elsewhere') {
    const message = `The app listens on port ${seen.ports.join(', ')}, not on the port in PORT. Let it listen on the port that the variable PORT holds.`
    return new DeploymentError('start', 'wrong_port', message)
  }
  if (answer !== undefined) {
    const message = `The app listens, but did not become healthy ${within}: ${answer}.`
    return new DeploymentError('start', 'unhealthy', withLastLines(message, lines))
  }
  const message = `The app did not listen on the port in PORT (${instance.port} this time) ${within}.`
  return new DeploymentError('start', 'not_listening', withLastLines(message, lines))
}
