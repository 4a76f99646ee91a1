import { randomUUID } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import type { Logger } from '../../platform/logger.ts'
import type { Exit, Handle, Instances, Observation, Release, ReleaseRef, StopOptions } from '../runtime.ts'
import type { Waiters } from './calls/waiters.ts'
import { attach } from './containers/attach.ts'
import { endContainer } from './containers/end.ts'
import { exitOfContainer } from './containers/exit.ts'
import type { ExitWatch } from './containers/exit-watch.ts'
import { fromHandle, toHandle } from './containers/handle.ts'
import { completeNetwork } from './containers/networked.ts'
import { observeRunning, wasRefusedProcesses } from './containers/observe.ts'
import type { OwnCheck } from './containers/own-check.ts'
import { type StartParts, startContainer } from './containers/start.ts'
import { usageOf } from './containers/usage.ts'
import type { Engine } from './engine/engine.ts'
import { whenBack } from './engine/patience.ts'
import { commandLabel, unitLabel } from './names.ts'
import type { ContainerNetworks } from './network/networks.ts'
import type { Outputs } from './output/outputs.ts'

export interface InstancesParts extends StartParts {
  readonly networks: ContainerNetworks
  readonly engine: Engine
  readonly waiters: Waiters
  readonly outputs: Outputs
  readonly exits: ExitWatch
  readonly ownCheck: OwnCheck
  readonly logger: Pick<Logger, 'info'>
}

/** How long an observation waits for an engine that is being started again. After that it fails, which ends nothing. */
const patienceMs = 15_000

/** This server's memory of containers: an engine forgets those that are removed. */
interface Memory {
  /** By container. */
  readonly exits: Map<string, { readonly releaseId: string; readonly exit: Exit }>
  /** The containers that have been refused a process. */
  readonly refused: Set<string>
}

/** Runs instances as containers, which outlive the server. */
export function createInstances(parts: InstancesParts): Instances & Pick<Ending, 'halt'> {
  const { engine, containers, networks, outputs, exits } = parts
  const memory: Memory = { exits: new Map(), refused: new Set() }
  const ending = createEnding(parts, memory)

  return {
    halt: ending.halt,

    async start(release, command, output, { beside = false } = {}) {
      const unit = beside ? randomUUID() : release.id
      await ending.clear(release, unit, output)
      const { instance, exit } = await startContainer(parts, release, command, output, unit)
      if (exit !== null) memory.exits.set(instance.container, { releaseId: release.id, exit })
      return toHandle(instance)
    },

    isCurrent: () => true,
    observe: (handle) => observe(parts, memory, handle),
    serveAt: async (handle, port) => {
      const { servedPort: _, ...instance } = fromHandle(handle)
      return toHandle(port === instance.port ? instance : { ...instance, servedPort: port })
    },
    watch: (handle, onExit) => exits.add(fromHandle(handle).container, onExit),

    async adopt(_, handle, output) {
      const { container } = fromHandle(handle)
      const found = await containers.inspect(container)
      if (found === null) return
      await completeNetwork(networks, found)
      await outputs.follow(container, output)
    },

    stop: (handle, options) => ending.stop(fromHandle(handle).container, fromHandle(handle).releaseId, options),
    attach: (release, handle, request) => attach(parts, release, fromHandle(handle), request),
    usage: async (handle) => usageOf(engine, fromHandle(handle).container),
  }
}

async function observe(
  { containers, networks, outputs, ownCheck }: InstancesParts,
  memory: Memory,
  handle: Handle,
): Promise<Observation> {
  const instance = fromHandle(handle)
  const id = instance.container
  const container = await whenBack(() => containers.inspect(id), patienceMs)
  if (container === null) {
    const known = memory.exits.get(id)?.exit ?? { code: null, signal: null, exceeded: null }
    return { state: 'exited', ...known }
  }
  if (container.State.Running) {
    if (await wasRefusedProcesses(container.State.Pid)) memory.refused.add(id)
    return observeRunning(container, instance, networks.leadsToLoopback, ownCheck)
  }
  // The reader looks at the last lines next.
  await outputs.written(id)
  return { state: 'exited', ...exitOfContainer(container, memory.refused.has(id)) }
}

/** Ends containers. */
interface Ending {
  stop(container: string, releaseId: string, options: StopOptions): Promise<void>
  /** Ends all containers of a release, and removes them. */
  halt(release: ReleaseRef, options: StopOptions): Promise<void>
  /**
   * Makes room for an instance: ends an earlier one of its name, and removes what has ended of the release, once its output is
   * in the log.
   */
  clear(release: Release, unit: string, output: FileHandle): Promise<void>
}

function createEnding({ containers, outputs, ownCheck, logger }: InstancesParts, memory: Memory): Ending {
  const remove = async (id: string): Promise<void> => {
    await outputs.written(id)
    await containers.remove(id)
    await outputs.forget(id)
    memory.refused.delete(id)
    ownCheck.forget(id)
  }
  const forgetExits = (release: ReleaseRef): void => {
    for (const [id, { releaseId }] of memory.exits) if (releaseId === release.id) memory.exits.delete(id)
  }
  const endCommands = async (id: string): Promise<void> => {
    for (const command of await containers.list({ [commandLabel]: id })) await containers.remove(command.Id)
  }
  const stop: Ending['stop'] = async (id, releaseId, options) => {
    await endContainer(containers, id, options)
    if (options.signal?.aborted === true) return
    await endCommands(id)
    const ended = await containers.inspect(id)
    if (ended === null) return
    const exit = exitOfContainer(ended, memory.refused.has(id))
    logger.info({ deployment: releaseId, container: id, ...exit }, 'app exited')
    memory.exits.set(id, { releaseId, exit })
    // One whose output this server has not read yet is removed by the next start, which reads it.
    if (await outputs.written(id)) await remove(id)
  }
  return {
    stop,

    async halt(release, options) {
      const own = await containers.listOf(release)
      await Promise.all(own.map(({ Id }) => endContainer(containers, Id, options)))
      if (options.signal?.aborted === true) return
      await Promise.all(own.map(({ Id }) => remove(Id)))
      forgetExits(release)
    },

    async clear(release, unit, output) {
      forgetExits(release)
      for (const { Id, State, Labels } of await containers.listOf(release)) {
        // Another start may have made one that it starts next.
        const hasEnded = (Labels[unitLabel] ?? '') !== '' && (State === 'exited' || State === 'dead')
        if (!hasEnded && Labels[unitLabel] !== unit) continue
        await endContainer(containers, Id, { graceMs: 0 })
        await endCommands(Id)
        await outputs.follow(Id, output)
        await remove(Id)
      }
    },
  }
}
