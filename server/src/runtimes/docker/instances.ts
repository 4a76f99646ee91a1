import { randomUUID } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import type { Logger } from '../../platform/logger.ts'
import type { Exit, Handle, Instances, Observation, Release, ReleaseRef, StopOptions, Usage } from '../runtime.ts'
import { attach } from './attach.ts'
import type { Container, Containers, Waiters } from './calls.ts'
import { type Engine, whenBack } from './client.ts'
import { type ExitWatch, endContainer, exitOfContainer } from './end.ts'
import { unlessMissing } from './errors.ts'
import { commandLabel, projectLabel, unitLabel } from './names.ts'
import type { ContainerNetworks } from './network/networks.ts'
import { type OwnCheck, observeRunning, wasRefusedProcesses } from './observe.ts'
import type { Outputs } from './output.ts'
import { fromHandle, type StartParts, startContainer, toHandle } from './start.ts'

export interface InstancesParts extends StartParts {
  readonly networks: ContainerNetworks
  readonly engine: Engine
  readonly waiters: Waiters
  readonly outputs: Outputs
  readonly exits: ExitWatch
  readonly ownCheck: OwnCheck
  readonly logger: Pick<Logger, 'info'>
}

/** The time that an observation waits for a restarting engine. Then it fails, which ends nothing. */
const patienceMs = 15_000

/** The memory of this server about containers, because an engine forgets removed containers. */
interface Memory {
  readonly exits: Map<string, { readonly releaseId: string; readonly exit: Exit }>
  /** The containers to which the kernel has refused a process. */
  readonly refused: Set<string>
}

/** Runs instances as containers. They outlive the server. */
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
  await outputs.written(id)
  return { state: 'exited', ...exitOfContainer(container, memory.refused.has(id)) }
}

interface Ending {
  stop(container: string, releaseId: string, options: StopOptions): Promise<void>
  halt(release: ReleaseRef, options: StopOptions): Promise<void>
  /**
   * Prepares the start of an instance: ends an earlier instance of this name, and removes ended containers of the
   * release after their output is in the log.
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
    // Otherwise the next start reads the output and removes the container.
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
        // A concurrent start may have made a container that it starts next.
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

interface Stats {
  readonly memory_stats?: {
    readonly usage?: number
    readonly stats?: { readonly inactive_file?: number; readonly total_inactive_file?: number }
  }
  readonly cpu_stats?: { readonly cpu_usage?: { readonly total_usage?: number } }
  readonly pids_stats?: { readonly current?: number }
}

/** Measures a container; zero for an ended container. */
async function usageOf(engine: Engine, id: string): Promise<Usage> {
  const asked = engine.call<Stats | null>({
    method: 'GET',
    path: ['containers', id, 'stats'],
    // Without `one-shot`, the engine measures twice, a second apart.
    query: { stream: false, 'one-shot': true },
  })
  const { memory_stats: memory, cpu_stats, pids_stats } = (await unlessMissing(asked, null)) ?? {}
  // Cached files, which the kernel drops when it needs memory; the first name is from cgroups v1.
  const cached = memory?.stats?.total_inactive_file ?? memory?.stats?.inactive_file ?? 0
  return {
    memoryBytes: Math.max(0, (memory?.usage ?? 0) - cached),
    cpuSeconds: memory?.usage === undefined ? 0 : (cpu_stats?.cpu_usage?.total_usage ?? 0) / 1e9,
    processes: pids_stats?.current ?? 0,
  }
}

/**
 * Wraps `containers`: completes the network of a container at its start, and removes the network after its last
 * container.
 */
export function networked(containers: Containers, networks: Pick<ContainerNetworks, 'started' | 'left'>): Containers {
  return {
    ...containers,

    async start(id) {
      await containers.start(id)
      await completeNetwork(networks, await containers.inspect(id))
    },

    async remove(id) {
      const project = (await containers.inspect(id))?.Config.Labels?.[projectLabel]
      await containers.remove(id)
      // The next sweep removes a remaining network.
      if (project !== undefined) await networks.left(project).catch(() => undefined)
    },
  }
}

/** Completes the inside of the network of a running container, unless the network belongs to another container. */
async function completeNetwork(
  networks: Pick<ContainerNetworks, 'started'>,
  container: Container | null,
): Promise<void> {
  const gateway = Object.values(container?.NetworkSettings.Networks ?? {}).find(
    ({ Gateway }) => Gateway !== '',
  )?.Gateway
  const project = container?.Config.Labels?.[projectLabel]
  if (container == null || gateway === undefined || project === undefined) return
  const { Id: id, State } = container
  if (State.Pid > 0) await networks.started(project, { id, pid: State.Pid, gateway })
}
