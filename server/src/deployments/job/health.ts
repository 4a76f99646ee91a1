import { setTimeout as sleep } from 'node:timers/promises'
import type { Endpoint, Handle, Observation, Release } from '../../runtimes/runtime.ts'
import { DeploymentError, limitMessage, withLastLines } from '../state/failure.ts'
import type { InstanceControl } from './instances.ts'
import type { LastLines } from './log-lines.ts'
import { isHealthy, probe } from './probe.ts'

export interface HealthOptions {
  /** Deadline for the first good answer, in milliseconds. */
  readonly startTimeoutMs: number
  /** How long the app must stay up after it, in milliseconds. */
  readonly stableMs: number
  /** The path that the app names for its health. */
  readonly path: string | undefined
}

/**
 * Watches a started release from outside until it answers as a healthy app does and has stayed up for the stability
 * window; returns the endpoints that it answers on. Rejects with a `DeploymentError` at once when it exits, and at the
 * deadline when it does not answer.
 */
export type HealthCheck = (
  release: Release,
  instance: Handle,
  options: HealthOptions,
  signal: AbortSignal,
) => Promise<readonly [Endpoint, ...Endpoint[]]>

/** Most apps answer within the first second, so they are polled more often until then. */
const firstPauseMs = 25
const eagerMs = 1_000
const longestPauseMs = 200

interface HealthDependencies {
  readonly instances: Pick<InstanceControl, 'observe'>
  readonly lastLines: LastLines
}

export function createHealthCheck(dependencies: HealthDependencies): HealthCheck {
  const { instances, lastLines } = dependencies
  return async (release, instance, options, signal) => {
    const begun = performance.now()
    const deadline = begun + options.startTimeoutMs
    let pause = firstPauseMs
    let seen: Observation = { state: 'starting', port: 0 }
    let answer: string | undefined

    while (performance.now() < deadline) {
      signal.throwIfAborted()
      seen = await instances.observe(instance)
      if (seen.state === 'exited') throw exited(seen, 'before it answered', await lastLines(release, 'runtime'))
      if (seen.state === 'listening') {
        answer = await askFor(seen.endpoints[0], options.path, signal)
        if (answer === 'healthy') {
          await untilStable(dependencies, release, instance, options.stableMs, signal)
          return seen.endpoints
        }
      }
      await sleep(pause, undefined, { signal })
      if (performance.now() - begun > eagerMs) pause = Math.min(pause * 1.5, longestPauseMs)
    }
    throw neverHealthy(seen, answer, options, await lastLines(release, 'runtime'))
  }
}

/** Returns `healthy`, or the reason why it is not. */
async function askFor(endpoint: Endpoint, healthPath: string | undefined, signal: AbortSignal): Promise<string> {
  const path = healthPath ?? '/'
  try {
    const { status } = await probe({ ...endpoint, path, headers: { 'user-agent': 'fairlead-health' } }, signal)
    return isHealthy(status, healthPath) ? 'healthy' : `the last answer on ${path} had status ${status}`
  } catch (error) {
    signal.throwIfAborted()
    return `the last request to ${path} got no answer (${error instanceof Error ? error.message : error})`
  }
}

async function untilStable(
  { instances, lastLines }: HealthDependencies,
  release: Release,
  instance: Handle,
  stableMs: number,
  signal: AbortSignal,
): Promise<void> {
  const end = performance.now() + stableMs
  while (performance.now() < end) {
    await sleep(Math.min(firstPauseMs * 2, Math.max(1, end - performance.now())), undefined, { signal })
    const seen = await instances.observe(instance)
    if (seen.state === 'exited') throw exited(seen, 'right after its first answer', await lastLines(release, 'runtime'))
  }
}

function exited(seen: Extract<Observation, { state: 'exited' }>, when: string, lines: string[]): DeploymentError {
  if (seen.exceeded !== null) {
    return new DeploymentError('start', seen.exceeded.code, withLastLines(limitMessage(seen.exceeded, 'app'), lines))
  }
  const how = seen.signal === null ? (seen.code === null ? '' : ` with code ${seen.code}`) : ` by ${seen.signal}`
  const message = `The app ended${how} ${when}. Put right what its output says.`
  return new DeploymentError('start', 'app_exited', withLastLines(message, lines))
}

function neverHealthy(
  seen: Observation,
  answer: string | undefined,
  options: HealthOptions,
  lines: string[],
): DeploymentError {
  const deadline = `within ${options.startTimeoutMs / 1000} s`
  if (seen.state === 'wrong_port') {
    const message = `The app listens on port ${seen.ports.join(', ')}, not on the port in PORT. Let it listen on the port that the variable PORT holds.`
    return new DeploymentError('start', 'wrong_port', message)
  }
  if (answer !== undefined) {
    const message = `The app listens, but did not become healthy ${deadline}: ${answer}.`
    return new DeploymentError('start', 'unhealthy', withLastLines(message, lines))
  }
  const port = seen.state === 'starting' ? ` (${seen.port} this time)` : ''
  const message = `The app did not listen on the port in PORT${port} ${deadline}.`
  return new DeploymentError('start', 'not_listening', withLastLines(message, lines))
}
