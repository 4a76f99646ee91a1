import { sleepUntilAborted } from '../../../platform/abort.ts'
import type { Logger } from '../../../platform/logger.ts'
import type { Containers } from '../calls/containers.ts'
import type { Engine } from '../engine/engine.ts'
import { isAway } from '../engine/error.ts'
import { readJsonLines } from '../engine/streams.ts'
import { labelFilter, serverLabel } from '../names.ts'

/** Notices the end of containers by the engine's events. */
export interface ExitWatch {
  /** Calls `onExit` once, soon after the container has ended. Returns a function that ends the watch. */
  add(container: string, onExit: () => void): () => void
  close(): void
}

export interface ExitWatchParts {
  readonly engine: Engine
  readonly containers: Pick<Containers, 'list' | 'inspect'>
  readonly server: string
  /** Resolves when the output of a container that has ended is in its log. */
  readonly written: (container: string) => Promise<void>
  /** Called when the health check that the image brings with it says that a container is not healthy. */
  readonly onUnhealthy: (container: string) => void
  readonly logger: Pick<Logger, 'warn' | 'info'>
}

interface EngineEvent {
  readonly Action: string
  readonly Actor: { readonly ID: string }
}

/** An engine that is started again is back within some seconds. */
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
    // Those that were taken away meanwhile are not called.
    for (const listener of listeners) listener()
  }
  /** Calls the listeners of those among some containers that have ended. */
  const check = async (some: readonly string[]): Promise<void> => {
    const listed = await containers.list({})
    const running = new Set(listed.filter(({ State }) => isAlive(State)).map(({ Id }) => Id))
    await Promise.all(some.filter((container) => !running.has(container)).map(fire))
  }
  /** Looks whether a container had ended before it was watched. */
  const checkOnce = (container: string): Promise<void> =>
    untilSuccess(() => check([container]), { isWanted: () => watched.has(container), signal: closing.signal })
  /** Finds what has happened while nobody listened. */
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

/** Repeats a check until it succeeds: an engine that is away, or too busy to answer, is asked again. */
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

/** True when the connection ended in the middle: the engine has ended. */
const isCut = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ECONNRESET'

/** True for the state of a container that has processes. */
export const isAlive = (state: string): boolean => ['running', 'paused', 'restarting'].includes(state)

/** Follows the events of this server's containers until the connection ends. */
async function followEvents(
  { engine, server, onUnhealthy }: ExitWatchParts,
  signal: AbortSignal,
  on: { readonly connected: () => Promise<void>; readonly died: (container: string) => void },
): Promise<void> {
  const event = ['die', 'health_status']
  const filters = { type: ['container'], event, ...labelFilter({ [serverLabel]: server }) }
  const answer = await engine.open({ method: 'GET', path: ['events'], query: { filters }, signal })
  try {
    // From here on, each end is an event.
    await on.connected()
    for await (const { Action, Actor } of readJsonLines<EngineEvent>(answer)) {
      if (Action === 'die') on.died(Actor.ID)
      else if (Action === 'health_status: unhealthy') onUnhealthy(Actor.ID)
    }
  } finally {
    answer.destroy()
  }
}
