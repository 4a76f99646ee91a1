import { readdir, readFile, stat } from 'node:fs/promises'
import { constants } from 'node:os'
import { endedOrAborted, sleepUntilAborted } from '../../platform/abort.ts'
import type { Logger } from '../../platform/logger.ts'
import { isRunning, type ProcessIdentity, sendSignal, startTimeOf } from '../../platform/processes.ts'
import type { ExceededLimit } from '../limits.ts'
import type { Exit, StopOptions } from '../runtime.ts'
import type { Container, Containers } from './calls.ts'
import type { Engine } from './client.ts'
import { EngineError, isAway } from './errors.ts'
import { labelFilter, serverLabel } from './names.ts'
import { entryInside } from './network/host-network.ts'
import { readJsonLines } from './streams.ts'

const killDeadlineMs = 30_000

/**
 * Ends a container with all its processes: with the signal that its image names (SIGTERM by default), and with SIGKILL
 * after the grace period. Does not remove the container.
 */
export async function endContainer(
  containers: Pick<Containers, 'inspect' | 'signal' | 'ended'>,
  id: string,
  { graceMs, signal }: StopOptions,
): Promise<void> {
  const container = await containers.inspect(id)
  const isGivenUp = () => signal?.aborted === true
  if (container === null || !container.State.Running || isGivenUp()) return
  const over = new AbortController()
  try {
    const ended = containers.ended(id, over.signal)
    ended.catch(() => undefined)
    if (graceMs > 0) {
      const isAsked = await askToEnd(containers, id, container.Config.StopSignal)
      const limits = [AbortSignal.timeout(graceMs), ...(signal === undefined ? [] : [signal])]
      if (isAsked) await endedOrAborted(ended, AbortSignal.any(limits))
      if (isGivenUp()) return
    }
    await containers.signal(id, 'SIGKILL')
    const deadline = AbortSignal.timeout(killDeadlineMs)
    await endedOrAborted(ended, deadline)
    if (deadline.aborted) throw new Error(`the container ${id} survives SIGKILL`)
  } finally {
    over.abort()
  }
}

/**
 * Sends the signal that an image names. The signal may not exist: the engine checks it only now, and then refuses every
 * signal but SIGKILL. In this case resolves with false.
 */
async function askToEnd(containers: Pick<Containers, 'signal'>, id: string, named = 'SIGTERM'): Promise<boolean> {
  try {
    await containers.signal(id, named)
    return true
  } catch (error) {
    if (!(error instanceof EngineError) || error.status === null) throw error
    return false
  }
}

export interface ExitWatch {
  /** Calls `onExit` once, soon after the end. Returns a function that ends the watch. */
  add(container: string, onExit: () => void): () => void
  close(): void
}

export interface ExitWatchParts {
  readonly engine: Engine
  readonly containers: Pick<Containers, 'list' | 'inspect'>
  readonly server: string
  /** Resolves when the log has the complete output of an ended container. */
  readonly written: (container: string) => Promise<void>
  /** Called when the health check of the image reports a container as unhealthy. */
  readonly onUnhealthy: (container: string) => void
  readonly logger: Pick<Logger, 'warn' | 'info'>
}

interface EngineEvent {
  readonly Action: string
  readonly Actor: { readonly ID: string }
}

/** The pause between connections: a restarted engine is back within some seconds. */
const pauseMs = 500

export function createExitWatch(parts: ExitWatchParts): ExitWatch {
  const { containers, written, onUnhealthy, logger } = parts
  const watched = new Map<string, Set<() => void>>()
  const closing = new AbortController()
  let isFollowing = false

  const fire = async (container: string): Promise<void> => {
    const listeners = watched.get(container)
    if (listeners === undefined) return
    await written(container)
    // An event and a check can notice the same end.
    if (watched.get(container) !== listeners) return
    watched.delete(container)
    for (const listener of listeners) listener()
  }
  const check = async (some: readonly string[]): Promise<void> => {
    const listed = await containers.list({})
    const running = new Set(listed.filter(({ State }) => isAlive(State)).map(({ Id }) => Id))
    await Promise.all(some.filter((container) => !running.has(container)).map(fire))
  }
  /** Checks whether a container ended before the watch began. */
  const checkOnce = (container: string): Promise<void> =>
    untilSuccess(() => check([container]), { isWanted: () => watched.has(container), signal: closing.signal })
  /** Finds the events that happened without a connection. */
  const catchUp = async (): Promise<void> => {
    await check([...watched.keys()])
    for (const { Id, State } of await containers.list({}, { health: 'unhealthy' })) if (isAlive(State)) onUnhealthy(Id)
  }
  const follow = async (): Promise<void> => {
    const { signal } = closing
    while (!signal.aborted) {
      await followEvents(parts, signal, {
        connected: catchUp,
        died: (container) => void fire(container),
      }).catch((error: unknown) => {
        if (!signal.aborted && !isAway(error) && !isCut(error))
          logger.warn({ err: error }, 'the events of the Docker engine cannot be read')
      })
      await sleepUntilAborted(pauseMs, signal)
    }
  }

  return {
    add(container, onExit) {
      const listener = () => onExit()
      const listeners = watched.get(container) ?? new Set()
      watched.set(container, listeners.add(listener))
      if (!isFollowing) void follow()
      isFollowing = true
      void checkOnce(container)
      return () => {
        listeners.delete(listener)
        if (listeners.size === 0 && watched.get(container) === listeners) watched.delete(container)
      }
    },
    close: () => closing.abort(),
  }
}

/** Repeats a check until it succeeds: the engine may be away or too busy to answer. */
async function untilSuccess(
  check: () => Promise<void>,
  { isWanted, signal }: { readonly isWanted: () => boolean; readonly signal: AbortSignal },
): Promise<void> {
  while (isWanted() && !signal.aborted) {
    const isChecked = await check().then(
      () => true,
      () => false,
    )
    if (isChecked) return
    await sleepUntilAborted(pauseMs, signal)
  }
}

/** True when the connection was cut: the engine has ended. */
const isCut = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ECONNRESET'

const isAlive = (state: string): boolean => ['running', 'paused', 'restarting'].includes(state)

async function followEvents(
  { engine, server, onUnhealthy }: ExitWatchParts,
  signal: AbortSignal,
  on: { readonly connected: () => Promise<void>; readonly died: (container: string) => void },
): Promise<void> {
  const event = ['die', 'health_status']
  const filters = { type: ['container'], event, ...labelFilter({ [serverLabel]: server }) }
  const answer = await engine.open({ method: 'GET', path: ['events'], query: { filters }, signal })
  try {
    // From here on, each end causes an event.
    await on.connected()
    for await (const { Action, Actor } of readJsonLines<EngineEvent>(answer)) {
      if (Action === 'die') on.died(Actor.ID)
      else if (Action === 'health_status: unhealthy') onUnhealthy(Actor.ID)
    }
  } finally {
    answer.destroy()
  }
}

export interface LostParts {
  readonly containers: Pick<Containers, 'list'>
  /**
   * The file that every container of this server executes first. It identifies their processes; null without such a
   * file.
   */
  readonly entry: string | null
  readonly fence: () => void
}

interface Member extends ProcessIdentity {
  readonly container: string
}

/**
 * Returns a function that ends processes of containers that the engine has lost: an engine that is killed during the
 * start of a container may not know later that the container runs. The function ends a process at the second call that
 * finds it, because a starting container does not count as running either. The caller makes one call at a time, a
 * minute apart.
 */
export function createEndLost({ containers, entry, fence }: LostParts): () => Promise<void> {
  let before = new Map<number, string>()
  return async () => {
    if (entry === null) return
    // Read before the list of the engine, so that it contains no container that starts later.
    const found = await membersWith(entry)
    const running = new Set((await containers.list({})).filter(({ State }) => isAlive(State)).map(({ Id }) => Id))
    const lost = found.filter(({ container }) => !running.has(container))
    fence()
    for (const one of lost) if (before.get(one.pid) === one.startTime && isRunning(one)) sendSignal(one.pid, 'SIGKILL')
    before = new Map(lost.map(({ pid, startTime }) => [pid, startTime]))
  }
}

async function membersWith(entry: string): Promise<Member[]> {
  const own = await identityOf(entry)
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const members: Member[] = []
  for (const pid of pids) {
    const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')
    // The id in the name of the group, independent of the program that makes the groups.
    const container = /[/-]([0-9a-f]{64})(?:\.scope)?$/m.exec(groups)?.[1]
    if (container === undefined || own === null || (await identityOf(`/proc/${pid}/root${entryInside}`)) !== own)
      continue
    const startTime = startTimeOf(pid)
    if (startTime !== null) members.push({ pid, startTime, container })
  }
  return members
}

/** Returns the same text for two paths to one file; null without a file. */
const identityOf = (path: string): Promise<string | null> =>
  stat(path, { bigint: true }).then(
    ({ dev, ino }) => `${dev} ${ino}`,
    () => null,
  )

/** A shell, the init process and the engine add the number of the signal to this. */
const signalBase = 128

export function exitOf(status: number, exceeded: ExceededLimit | null = null): Exit {
  const number = status - signalBase
  const signal = Object.entries(constants.signals).find(([, each]) => each === number)?.[0]
  return signal === undefined ? { code: status, signal: null, exceeded } : { code: null, signal, exceeded }
}

/** @param refusedProcesses true when the kernel has refused the container a process */
export function exitOfContainer({ State, HostConfig }: Container, refusedProcesses: boolean): Exit {
  const { ExitCode, OOMKilled } = State
  if (OOMKilled) {
    return exitOf(ExitCode, { code: 'out_of_memory', allowed: HostConfig.Memory ?? 0, used: null })
  }
  const allowed = HostConfig.PidsLimit ?? 0
  const tooMany = refusedProcesses && ExitCode !== 0
  return exitOf(ExitCode, tooMany ? { code: 'too_many_processes', allowed, used: allowed } : null)
}
