import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  isRunning,
  type ListeningSocket,
  listeningSockets,
  networkOf,
  sendSignal,
  startTimeOf,
} from '../../platform/processes.ts'
import { debuggerPorts, type Observation } from '../runtime.ts'
import type { Container, ContainerState } from './calls.ts'
import type { Engine } from './client.ts'
import { EngineError } from './errors.ts'
import { exposedPorts } from './specification.ts'
import type { ContainerInstance } from './start.ts'
import { readFrames } from './streams.ts'

/** The name server of the engine in the network of a container. */
const nameServer = '127.0.0.11'
/** The addresses of sockets for every address. By default, a socket on `::` takes IPv4, too. */
const everywhere = ['0.0.0.0', '::', '::ffff:0.0.0.0']
const loopback = ['127.0.0.1', '::ffff:127.0.0.1']

export async function observeRunning(
  container: Container,
  instance: Pick<ContainerInstance, 'port' | 'servedPort'>,
  leadsToLoopback: boolean,
  ownCheck: Pick<OwnCheck, 'problemOf'>,
): Promise<Observation> {
  const { State, Config } = container
  const address = addressOf(container)
  if (address === null) return { state: 'starting', port: instance.port }
  // The pid may belong to another process by now. A container never has the machine's network.
  const isInside = networkOf(State.Pid) !== networkOf('self')
  const sockets = isInside ? await listeningSockets(State.Pid) : []
  const exposed = exposedPorts(Config.ExposedPorts)
  const seen = observationOf({ ...instance, address, exposed, leadsToLoopback }, sockets)
  if (seen.state === 'starting') return seen
  // The runtime soon ends a container that its image's own check finds unhealthy.
  const problem = await ownCheck.problemOf(container)
  return problem === null ? seen : { state: 'unready', problem }
}

export function addressOf({ NetworkSettings }: Pick<Container, 'NetworkSettings'>): string | null {
  const addresses = Object.values(NetworkSettings.Networks ?? {}).map(({ IPAddress }) => IPAddress)
  return addresses.find((address) => address !== '') ?? null
}

/**
 * Derives an observation from the sockets in the network of a container. The gateway uses the address of the container.
 */
export function observationOf(
  place: Pick<ContainerInstance, 'port' | 'servedPort'> & {
    readonly address: string
    readonly exposed: readonly number[]
    /** True when connections to the address also arrive at 127.0.0.1. */
    readonly leadsToLoopback: boolean
  },
  sockets: readonly Pick<ListeningSocket, 'port' | 'address'>[],
): Observation {
  const { port, servedPort = port, address } = place
  const reached = [...everywhere, address, ...(place.leadsToLoopback ? loopback : [])]
  const isReachable = (socket: { readonly address: string }) => reached.includes(socket.address)
  if (sockets.some((socket) => socket.port === servedPort && isReachable(socket))) {
    return { state: 'listening', endpoints: [{ host: address, port: servedPort }] }
  }
  const serious = sockets.filter(
    (socket) => socket.address !== nameServer && (socket.port === port || !debuggerPorts.has(socket.port)),
  )
  if (serious.length === 0) return { state: 'starting', port }
  const ports = [...new Set(serious.map((socket) => socket.port))].sort((a, b) => a - b)
  const reachable = ports.filter(
    (each) => each !== port && serious.some((one) => one.port === each && isReachable(one)),
  )
  const named = reachable.filter((each) => place.exposed.includes(each))
  const [only = null, ...others] = named.length > 0 ? named : reachable
  return { state: 'wrong_port', port, ports, servable: others.length === 0 ? only : null }
}

/** True when the kernel has refused a process to the control group of `pid`. */
export async function wasRefusedProcesses(pid: number): Promise<boolean> {
  const groups = (await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')).split('\n')
  for (const line of groups) {
    const [number, controllers = '', path = ''] = line.split(':')
    const mount = number === '0' ? '/sys/fs/cgroup' : '/sys/fs/cgroup/pids'
    if (number !== '0' && !controllers.split(',').includes('pids')) continue
    const events = await readFile(`${mount}${path}/pids.events`, 'utf8').catch(() => '')
    if (/^max [1-9]/m.test(events)) return true
  }
  return false
}

/** The image's `HEALTHCHECK`. */
export interface OwnCheck {
  /** Returns null after a success or without a check; else the problem as a clause. */
  problemOf(container: Container): Promise<string | null>
  forget(container: string): void
}

const pauseMs = 2_000
/** An observation waits no longer for a running check. */
const patienceMs = 2_000
/** The default of the engine when the image names no timeout. */
const defaultTimeoutMs = 30_000
const mostOutputBytes = 4_096

interface Asked {
  readonly answer: Promise<string | null>
  problem: string | null
}

/**
 * Runs the check of an image until the engine does: the first check of the engine comes after the interval of the
 * image, which is often longer than the time limit for the start of an app.
 */
export function createOwnCheck(engine: Engine, fence: () => void): OwnCheck {
  const asked = new Map<string, Asked>()

  const ask = (container: Container): Asked => {
    const answer = run(engine, container).then(({ problem, hung }) => {
      current.problem = problem
      // The next request begins another check.
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
  /** The id of a check beyond its time limit; null after its end. */
  readonly hung: string | null
}

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
    // The end of the request also ends the output.
    signal.throwIfAborted()
    const { ExitCode } = await stateOf(engine, id)
    return { problem: ExitCode === 0 ? null : failed(ExitCode, output), hung: null }
  } catch (error) {
    if (signal.aborted) {
      if (hung !== null) await end(engine, hung).catch(() => undefined)
      return { problem: `the HEALTHCHECK of its image takes longer than ${timeoutMs / 1000} s`, hung }
    }
    // The program does not exist, or the container has ended.
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

/** Ends a check with its children, which the engine does not do. The check has its own session. */
async function end(engine: Engine, id: string): Promise<void> {
  const { Pid: pid } = await stateOf(engine, id)
  const startTime = startTimeOf(pid)
  // While the check runs, its pid is not reused.
  if (startTime === null || pid <= 1 || !(await stateOf(engine, id)).Running) return
  if (isRunning({ pid, startTime })) sendSignal(-pid, 'SIGKILL')
}

/** Resolves when the next check may begin: after a pause, and not beside a hanging check that cannot be ended. */
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

export function failureOf({ Log }: NonNullable<ContainerState['Health']>): string {
  const last = Log?.at(-1)
  return failed(last?.ExitCode ?? null, last?.Output ?? '')
}

function failed(code: number | null, output: string): string {
  const [line = ''] = output.trim().split('\n').slice(-1)
  const said = line === '' ? '' : `: ${line}`
  return `the HEALTHCHECK of its image fails${code === null || code === -1 ? '' : ` with code ${code}`}${said}`
}
