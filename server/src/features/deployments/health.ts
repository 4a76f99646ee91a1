import type { IncomingHttpHeaders, RequestOptions } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Gateway } from '../../gateway/client.ts'
import { createMasker } from '../../logs/masking.ts'
import { request } from '../../platform/http.ts'
import type { Endpoint, Handle, Observation, Release } from '../../runtimes/runtime.ts'
import { startAdvice } from './advice.ts'
import { DeploymentError, limitMessage, seeOutput, withLastLines } from './failure.ts'
import type { InstanceControl } from './instances.ts'
import type { LastLines, NoteInLog } from './release-log.ts'

interface HealthOptions {
  /** The time until the first good answer, in milliseconds. */
  readonly startTimeoutMs: number
  /** The time for which the app must stay up after that answer, in milliseconds. */
  readonly stableMs: number
  readonly path: string | undefined
}

interface Healthy {
  /** Replaces the checked handle: an app that listens on another port than `PORT` is served on that port. */
  readonly instance: Handle
  readonly endpoints: readonly [Endpoint, ...Endpoint[]]
}

/**
 * Checks a started release from outside until it gives a healthy answer and has stayed up for the stability window.
 * Rejects with a `DeploymentError` at once when it exits, soon when it listens where the gateway cannot reach it, and
 * at the deadline when it does not answer.
 */
export type HealthCheck = (
  release: Release,
  instance: Handle,
  options: HealthOptions,
  signal: AbortSignal,
) => Promise<Healthy>

/** Most apps answer within the first second, so they are polled more often until then. */
const firstPauseMs = 10
const stablePauseMs = 50
const eagerMs = 1_000
const longestPauseMs = 200
/** A wrong port counts when nothing has changed for this long: some programs open other ports before `PORT`. */
const settledMs = 5_000

/** After this part of its time, the log says that an app does not answer yet, for readers who follow it. */
const patience = 1 / 6

interface HealthDependencies {
  readonly instances: Pick<InstanceControl, 'observe' | 'serveAt'>
  readonly gateway: Pick<Gateway, 'probe'>
  readonly lastLines: LastLines
  readonly note: NoteInLog
}

export function createHealthCheck(dependencies: HealthDependencies): HealthCheck {
  const { instances, gateway, lastLines, note } = dependencies
  return async (release, instance, options, signal) => {
    const begun = performance.now()
    const deadline = begun + options.startTimeoutMs
    const wrongPorts = createSettling(settledMs)
    let pause = firstPauseMs
    let seen: Observation = { state: 'starting', port: 0 }
    let answer: string | undefined
    let isTold = false

    while (performance.now() < deadline) {
      signal.throwIfAborted()
      seen = await instances.observe(instance)
      if (seen.state === 'exited') throw exited(seen, beforeAnswer, await lastLines(release, 'runtime', instance))
      let healthy: Healthy | null = null
      if (seen.state === 'unready') answer = shown(seen.problem, release)
      if (seen.state === 'listening') {
        answer = await askFor(gateway, seen.endpoints[0], options.path, signal)
        if (answer === 'healthy') healthy = { instance, endpoints: seen.endpoints }
      }
      const elsewhere = seen.state === 'wrong_port' ? seen : null
      if (wrongPorts.isSettled(elsewhere?.ports.join() ?? null) && elsewhere !== null) {
        const { servable } = elsewhere
        if (servable === null) throw neverHealthy(seen, answer, options, [])
        const ask = (endpoint: Endpoint) => askFor(gateway, endpoint, options.path, signal)
        healthy = await serveElsewhere(dependencies, instance, { port: elsewhere.port, servable }, ask)
        if (healthy !== null)
          await note(release, 'runtime', servedElsewhere(elsewhere.port, servable), instance.process)
      }
      if (healthy !== null) {
        await untilStable(dependencies, release, healthy, options.stableMs, signal)
        return healthy
      }
      if (!isTold && performance.now() - begun > options.startTimeoutMs * patience) {
        isTold = true
        await note(release, 'build', stillWaiting(seen, answer, options))
      }
      await sleep(pause, undefined, { signal })
      if (performance.now() - begun > eagerMs) pause = Math.min(pause * 1.5, longestPauseMs)
    }
    throw neverHealthy(seen, answer, options, await lastLines(release, 'runtime', instance))
  }
}

/** Tells when a value has stayed the same for some time; `null` means no value. */
function createSettling(ms: number): { isSettled(seen: string | null): boolean } {
  let last: string | null = null
  let since = 0
  return {
    isSettled(seen) {
      if (seen !== last) since = performance.now()
      last = seen
      return seen !== null && performance.now() - since >= ms
    },
  }
}

/** Serves an app at the only port that it listens on, if it gives a healthy answer there; else returns null. */
async function serveElsewhere(
  { instances }: Pick<HealthDependencies, 'instances'>,
  instance: Handle,
  { port, servable }: { readonly port: number; readonly servable: number },
  ask: (endpoint: Endpoint) => Promise<string>,
): Promise<Healthy | null> {
  const moved = await instances.serveAt(instance, servable)
  const seen = await instances.observe(moved)
  if (seen.state === 'listening' && (await ask(seen.endpoints[0])) === 'healthy') {
    return { instance: moved, endpoints: seen.endpoints }
  }
  // Another program of the app may have opened the port, and the app's port may open later.
  await instances.serveAt(moved, port)
  return null
}

const servedElsewhere = (port: number, servable: number): string =>
  `Warning: the app listens on port ${servable}, not on ${port}, the port in PORT. Fairlead sends its requests to ` +
  `${servable}. Let the app listen on the port that the variable PORT holds, so that it starts sooner.`

const mostShown = 500

/**
 * Returns a program's output without the values of the app's variables. They are masked before the text is cut, because
 * otherwise a part of a value could remain.
 */
const shown = (text: string, { variables }: Pick<Release, 'variables'>): string =>
  createMasker(Object.values(variables)).mask(text).slice(0, mostShown)

export async function askFor(
  gateway: Pick<Gateway, 'probe'>,
  endpoint: Endpoint,
  healthPath: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  const path = healthPath ?? '/'
  try {
    const status = await statusOf(gateway, endpoint, path, signal)
    return isHealthy(status, healthPath) ? 'healthy' : `the last answer on ${path} had status ${status}`
  } catch (error) {
    signal.throwIfAborted()
    return `the last request to ${path} got no answer (${error instanceof Error ? error.message : error})`
  }
}

async function statusOf(
  gateway: Pick<Gateway, 'probe'>,
  endpoint: Endpoint,
  path: string,
  signal: AbortSignal,
): Promise<number> {
  if ('folder' in endpoint) return gateway.probe(endpoint, path)
  return (await probe({ ...endpoint, path, headers: { 'user-agent': 'fairlead-health' } }, signal)).status
}

async function untilStable(
  { instances, lastLines }: HealthDependencies,
  release: Release,
  { instance, endpoints: [endpoint] }: Healthy,
  stableMs: number,
  signal: AbortSignal,
): Promise<void> {
  // A static site has no process that could end.
  if ('folder' in endpoint) return
  const end = performance.now() + stableMs
  while (performance.now() < end) {
    await sleep(Math.min(stablePauseMs, Math.max(1, end - performance.now())), undefined, { signal })
    const seen = await instances.observe(instance)
    if (seen.state !== 'exited') continue
    const lines = await lastLines(release, 'runtime', instance)
    throw exited(seen, 'right after its first answer', lines)
  }
}

const beforeAnswer = 'before it answered'

/** A program that only defines an application, or does its work and stops, fails in silence. */
const endedQuietly =
  'The program ended with code 0 without listening: it ran to its end. An app has to run on and listen on the port in PORT. If its file only defines an application, start a server that serves it: a "start" script, or a "web:" line in a Procfile such as "web: gunicorn app:app".'

function exited(seen: Extract<Observation, { state: 'exited' }>, when: string, lines: string[]): DeploymentError {
  if (seen.exceeded !== null) {
    return new DeploymentError('start', seen.exceeded.code, withLastLines(limitMessage(seen.exceeded, 'app'), lines))
  }
  if (seen.code === 0 && when === beforeAnswer) {
    return new DeploymentError('start', 'app_exited', withLastLines(endedQuietly, lines))
  }
  const how = seen.signal === null ? (seen.code === null ? '' : ` with code ${seen.code}`) : ` by ${seen.signal}`
  const parts = [`The app ended${how} ${when}.`, startAdvice(lines), seeOutput(lines)]
  const message = parts.filter((part) => part !== undefined).join(' ')
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
    return new DeploymentError('start', 'wrong_port', withLastLines(wrongPort(seen), lines))
  }
  if (answer !== undefined) {
    const advice = seen.state === 'unready' ? ownCheckAdvice : healthAdvice(options.path)
    const message = `The app listens, but did not become healthy ${deadline}: ${answer}. ${advice}`
    return new DeploymentError('start', 'unhealthy', withLastLines(message, lines))
  }
  const port = seen.state === 'starting' ? ` (${seen.port} this time)` : ''
  const message = `The app did not listen on the port in PORT${port} ${deadline}. Let it listen on the port that the variable PORT holds.`
  return new DeploymentError('start', 'not_listening', withLastLines(message, lines))
}

function stillWaiting(seen: Observation, answer: string | undefined, options: HealthOptions): string {
  const [waited, most] = [patience, 1].map((part) => Math.round((options.startTimeoutMs * part) / 1000))
  const port = seen.state === 'starting' ? ` (${seen.port} this time)` : ''
  const found = answer === undefined ? `does not listen on the port in PORT${port}` : `listens, but ${answer}`
  return `The app has run for ${waited} s and ${found}. The deployment fails if that is so after ${most} s.`
}

const ownCheckAdvice =
  'The check runs inside of the container: the programs that it calls have to be in the image, and it has to ask the port that the app listens on. Correct it, or remove it from the Dockerfile.'

const healthAdvice = (path: string | undefined): string =>
  path === undefined
    ? 'It has to answer HTTP on / with a status below 500, or name another path as "health" in fairlead.json.'
    : 'It has to answer HTTP there with a status from 200 to 399: "health" in fairlead.json names the path.'

function wrongPort({ port, ports }: Extract<Observation, { state: 'wrong_port' }>): string {
  if (ports.includes(port)) {
    return `The app listens on port ${port}, as PORT says, but at an address where it cannot be reached. Let it listen on 0.0.0.0.`
  }
  const named = ports.length === 1 ? `port ${ports[0]}` : `the ports ${ports.join(', ')}`
  return `The app listens on ${named}, not on the port in PORT (${port} this time). Let it listen on the port that the variable PORT holds.`
}

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
}

/**
 * True for the answer of a healthy app: 200 to 399 on the app's health path. Without such a path, every status below
 * 500 is healthy, because `/` may require a password or not exist.
 */
export const isHealthy = (status: number, healthPath: string | undefined): boolean =>
  healthPath === undefined ? status < 500 : status >= 200 && status < 400

const timeoutMs = 5_000

/**
 * Requests a path on a new connection and resolves with the head of the answer. It always settles: it rejects when no
 * answer arrives within five seconds, or the answer is not HTTP.
 */
export function probe(
  target: Pick<RequestOptions, 'host' | 'port' | 'headers'> & { readonly path: string },
  signal: AbortSignal,
): Promise<Answer> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  return new Promise((done, fail) => {
    const asking = request({ ...target, agent: false, signal: limit }, (response) => {
      done({ status: response.statusCode ?? 0, headers: response.headers })
      response.destroy()
    })
    asking.on('error', fail)
    // To Node an unsolicited upgrade is neither an answer nor an error.
    asking.on('close', () => fail(new Error('the connection was closed without an answer')))
    limit.addEventListener('abort', () => fail(limit.reason), { once: true })
    asking.end()
  })
}
