import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AddressRange } from '../../../platform/config.ts'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import type { Engine } from '../engine/engine.ts'
import { EngineError, unlessMissing } from '../engine/error.ts'
import { projectLabel, serverLabel } from '../names.ts'
import { entryInside } from './entry.ts'
import type { HostNetwork, RunningContainer } from './host-network.ts'
import { bridgeCount, bridgeName, bridgeNamesOf, bridgeSubnet, isRouted, routedNetworks } from './subnets.ts'

/** The networks of containers: a bridge of the engine for each project, which exists while containers are in it. */
export interface ContainerNetworks {
  /** True when the gateway reaches programs that listen on 127.0.0.1 alone. */
  readonly leadsToLoopback: boolean
  /** Calls `use` with the network of a project. It exists until that settles, and from then on while a container is in it. */
  join<T>(projectId: string, use: (network: ContainerNetwork) => Promise<T>): Promise<T>
  /** Completes the inside of a container's network: after each of its starts, and again by each later server. */
  started(container: RunningContainer): Promise<void>
  /** Removes the network of a project when no container is in it. */
  left(projectId: string): Promise<void>
  /** Removes the networks of this server in which no container is. */
  sweep(): Promise<void>
  /** Lets containers reach the port of an app, which the gateway has opened on this machine. */
  publish(port: number): Promise<void>
  /** Removes the networks in which no container is, and the rules of the host when none is left. */
  close(): Promise<void>
}

/** A network, as the parts of the description of a new container that put it in. */
export interface ContainerNetwork {
  readonly hostConfig: {
    readonly NetworkMode: string
    readonly Mounts: readonly { readonly Source: string; readonly [other: string]: unknown }[]
  }
  /** The beginning of the command: the program that waits until `started` is done. */
  readonly entry: readonly string[]
  /** @param app the name by which others of the project find it, as `<app>.internal`; null without */
  endpoints(app: string | null): { readonly EndpointsConfig?: object }
}

/** The network of a container that runs, for another one beside it. */
export const networkOfContainer = (id: string): ContainerNetwork => ({
  hostConfig: { NetworkMode: `container:${id}`, Mounts: [] },
  entry: [],
  endpoints: () => ({}),
})

export interface ContainerNetworksOptions {
  readonly engine: Pick<Engine, 'call'>
  /** The id of this server's data directory, which labels everything of it. */
  readonly server: string
  /** The absolute path of the data directory. */
  readonly dataDirectory: string
  readonly range: AddressRange
  /** Null where this machine has no rules for containers. */
  readonly host: HostNetwork | null
  /** Called right before something is made or removed; throws when another server leads. */
  readonly fence: () => void
}

/** The parts of the engine's description of a network that are used. */
interface EngineNetwork {
  readonly Id: string
  readonly Labels: Readonly<Record<string, string>> | null
  readonly Options: Readonly<Record<string, string>> | null
  /** Those that run; only when one network is described. */
  readonly Containers?: Readonly<Record<string, unknown>> | null
}

const bridgeOption = 'com.docker.network.bridge.name'

export function createContainerNetworks(options: ContainerNetworksOptions): ContainerNetworks {
  const { host, fence } = options
  const lock = createKeyedLock()
  /** How many containers are about to start in the network of each project. */
  const joining = new Map<string, number>()
  const engine = engineNetworks(options)

  const remove = (projectId: string): Promise<boolean> =>
    lock(projectId, async () => {
      if (joining.has(projectId)) return false
      const found = await engine.ofProject(projectId)
      if (found === undefined) return true
      fence()
      return engine.removeEmpty(found.Id)
    })
  const sweep = () => sweepWith(engine, remove)

  return {
    leadsToLoopback: host !== null,

    async join(projectId, use) {
      joining.set(projectId, (joining.get(projectId) ?? 0) + 1)
      try {
        const network = await lock(projectId, async () => {
          const found = (await engine.ofProject(projectId)) ?? (await makeNetwork(options, engine, projectId))
          await host?.prepare(found.Options?.[bridgeOption] ?? '')
          return found
        })
        return await use(projectNetwork(network.Id, host?.entry ?? null))
      } finally {
        const left = (joining.get(projectId) ?? 1) - 1
        if (left > 0) joining.set(projectId, left)
        else {
          joining.delete(projectId)
          // No container may have come of it. A network that stays is found at the next start of the server.
          await remove(projectId).catch(() => undefined)
        }
      }
    },

    started: async (container) => host?.complete(container),
    left: async (projectId) => void (await remove(projectId)),
    sweep: async () => void (await sweep()),
    publish: async (port) => host?.publish(port),

    async close() {
      if (await sweep()) await host?.remove()
    },
  }
}

/** Removes the networks of a server that does not run, in which no container is. False when any is left. */
export function sweepNetworks(options: Pick<ContainerNetworksOptions, 'engine' | 'server'>): Promise<boolean> {
  const engine = engineNetworks(options)
  return sweepWith(engine, async (projectId) => {
    const found = await engine.ofProject(projectId)
    return found === undefined || engine.removeEmpty(found.Id)
  })
}

async function sweepWith(
  { list }: Pick<EngineNetworks, 'list'>,
  remove: (projectId: string) => Promise<boolean>,
): Promise<boolean> {
  const projects = new Set((await list()).map(({ Labels }) => Labels?.[projectLabel] ?? ''))
  const removed = await Promise.all([...projects].map(remove))
  return removed.every(Boolean)
}

const projectNetwork = (id: string, entry: string | null): ContainerNetwork => ({
  hostConfig: {
    NetworkMode: id,
    Mounts: entry === null ? [] : [{ Type: 'bind', Source: entry, Target: entryInside, ReadOnly: true }],
  },
  entry: entry === null ? [] : [entryInside],
  endpoints: (app) => ({ EndpointsConfig: { [id]: { Aliases: app === null ? [] : [`${app}.internal`] } } }),
})

/** Makes the network of a project at the first addresses, counted from one by chance, that neither a route nor a network has. */
async function makeNetwork(
  { dataDirectory, range, host, fence }: ContainerNetworksOptions,
  engine: EngineNetworks,
  projectId: string,
): Promise<EngineNetwork> {
  const names = bridgeNamesOf(dataDirectory)
  const routed = routedNetworks(await readFile('/proc/net/route', 'utf8').catch(() => ''))
  const count = bridgeCount(range)
  const first = randomInt(count)
  for (let tried = 0; tried < count; tried += 1) {
    const index = (first + tried) % count
    if (isRouted(range, index, routed)) continue
    fence()
    const { cidr, gateway } = bridgeSubnet(range, index)
    const bridge = bridgeName(names, index)
    const create = () => engine.create({ projectId, bridge, cidr, gateway })
    const id = await patiently(create, async () => host?.discard(bridge)).catch(unlessTaken)
    if (id !== null) return engine.get(id)
  }
  throw new Error('no network is left for the containers of another project. Widen FAIRLEAD_CONTAINER_NETWORK.')
}

/** How often the engine is asked for a network, and the pauses between. */
const tries = 10
const pauseMs = 300

/**
 * The engine fails while another program loads the machine's firewall, in which it keeps chains of its own.
 *
 * @param discard removes what a failed call has left
 */
async function patiently<T>(call: () => Promise<T>, discard: () => Promise<void>): Promise<T> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof EngineError) || !/ip ?tables/i.test(error.detail)) throw error
      await discard()
      if (tried === tries) throw error
      await sleep(pauseMs)
    }
  }
}

/** The engine refuses addresses and bridges of its other networks, whoever has made them. */
function unlessTaken(error: unknown): null {
  if (error instanceof EngineError && /overlap|conflicts with network/i.test(error.detail)) return null
  throw error
}

interface EngineNetworks {
  list(): Promise<EngineNetwork[]>
  ofProject(projectId: string): Promise<EngineNetwork | undefined>
  get(id: string): Promise<EngineNetwork>
  /** Resolves with the id of a new network. */
  create(wanted: { projectId: string; bridge: string; cidr: string; gateway: string }): Promise<string>
  /** Removes a network unless a container is in it; false when one is. */
  removeEmpty(id: string): Promise<boolean>
}

function engineNetworks({ engine, server }: Pick<ContainerNetworksOptions, 'engine' | 'server'>): EngineNetworks {
  const list = (...labels: string[]) => {
    const filters = { label: [`${serverLabel}=${server}`, ...labels] }
    return engine.call<EngineNetwork[]>({ method: 'GET', path: ['networks'], query: { filters } })
  }
  return {
    list,
    ofProject: async (projectId) => (await list(`${projectLabel}=${projectId}`))[0],
    get: (id) => engine.call<EngineNetwork>({ method: 'GET', path: ['networks', id] }),

    async create({ projectId, bridge, cidr, gateway }) {
      const { Id } = await engine.call<{ Id: string }>({
        method: 'POST',
        path: ['networks', 'create'],
        body: {
          Name: `fairlead-${server}-${projectId}`,
          CheckDuplicate: true,
          Driver: 'bridge',
          EnableIPv6: false,
          IPAM: { Driver: 'default', Config: [{ Subnet: cidr, Gateway: gateway }] },
          Options: { [bridgeOption]: bridge, 'com.docker.network.bridge.enable_icc': 'true' },
          Labels: { [serverLabel]: server, [projectLabel]: projectId },
        },
      })
      return Id
    },

    async removeEmpty(id) {
      const found = await unlessMissing(engine.call<EngineNetwork>({ method: 'GET', path: ['networks', id] }), null)
      if (found === null) return true
      if (Object.keys(found.Containers ?? {}).length > 0) return false
      const removed = engine.call<null>({ method: 'DELETE', path: ['networks', id] }).then(() => true)
      return unlessMissing(removed, true).catch(unlessInUse)
    },
  }
}

/** A container may have started in it meanwhile. */
function unlessInUse(error: unknown): false {
  if (error instanceof EngineError && error.status === 403) return false
  throw error
}
