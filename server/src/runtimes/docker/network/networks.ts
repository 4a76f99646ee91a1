import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AddressRange } from '../../../platform/config.ts'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import { bridgeNamesOf } from '../../network/addresses.ts'
import { type NamedAddress, type Neighbours, nameSuffix, type ProjectContainers } from '../../network/neighbours.ts'
import type { Engine } from '../client.ts'
import { EngineError, unlessMissing } from '../errors.ts'
import { projectLabel, serverLabel } from '../names.ts'
import { entryInside, type HostNetwork, type RunningContainer } from './host-network.ts'
import { createProjectNames, hostsInside, type Mount, noProjectNames, type ProjectNames } from './project-names.ts'
import { bridgeCount, bridgeName, bridgeSubnet, isRouted, routedNetworks } from './subnets.ts'

/** The networks of containers: a bridge of the engine for each project, which exists while containers are in it. */
export interface ContainerNetworks {
  /** True when the gateway reaches programs that listen on 127.0.0.1 alone. */
  readonly leadsToLoopback: boolean
  /** The path on this machine of the program that containers begin with; null where they begin with their own. */
  readonly entry: string | null
  /** Calls `use` with the network of a project. It exists until that settles, and from then on while a container is in it. */
  join<T>(projectId: string, use: (network: ContainerNetwork) => Promise<T>): Promise<T>
  /**
   * Completes the inside of the network of a project's container: after each of its starts, and again by each later server.
   * Processes of the project reach it from then on, and it them.
   */
  started(projectId: string, container: RunningContainer): Promise<void>
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
    readonly Mounts: readonly Mount[]
  }
  /** The beginning of the command: the program that waits until `started` is done. */
  readonly entry: readonly string[]
  /** @param app the name by which others of the project find it, as `<app>.internal`; null without */
  endpoints(app: string | null): { readonly EndpointsConfig?: object }
}

/**
 * Returns the network of a container that runs, for another one beside it, which knows the same names.
 *
 * @param mounts all those of the container that runs
 */
export function networkOfContainer(id: string, mounts: readonly Mount[]): ContainerNetwork {
  const names = mounts.filter(({ Target }) => Target === hostsInside)
  return { hostConfig: { NetworkMode: `container:${id}`, Mounts: names }, entry: [], endpoints: () => ({}) }
}

export interface ContainerNetworksOptions {
  readonly engine: Pick<Engine, 'call'>
  /** The id of this server's data directory, which labels everything of it. */
  readonly server: string
  /** The absolute path of the data directory. */
  readonly dataDirectory: string
  readonly range: AddressRange
  /** Null where this machine has no rules for containers. */
  readonly host: HostNetwork | null
  /** The processes that reach the containers of their project, and that those reach; null where none do. */
  readonly neighbours: Neighbours | null
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
  const { host } = options
  const lock = createKeyedLock()
  /** How many containers are about to start in the network of each project. */
  const joining = new Map<string, number>()
  const engine = engineNetworks(options)
  const names = openProjectNames(options, engine)

  const remove = (projectId: string): Promise<boolean> =>
    lock(projectId, async () => !joining.has(projectId) && removeUnused(options, engine, names, projectId))
  const refresh = (projectId: string): Promise<void> => lock(projectId, () => names.refresh(projectId))
  const sweep = async (): Promise<boolean> => {
    const kept = await names.projects()
    const isEmpty = await removeAll(new Set([...(await projectsOf(engine)), ...kept]), remove)
    for (const projectId of await projectsOf(engine)) await refresh(projectId)
    return isEmpty
  }

  return {
    leadsToLoopback: host !== null,
    entry: host?.entry ?? null,

    async join(projectId, use) {
      joining.set(projectId, (joining.get(projectId) ?? 0) + 1)
      try {
        const network = await lock(projectId, async () => {
          const found = (await engine.ofProject(projectId)) ?? (await makeNetwork(options, engine, projectId))
          await host?.prepare(found.Options?.[bridgeOption] ?? '')
          return projectNetwork(found.Id, host?.entry ?? null, await names.open(projectId))
        })
        return await use(network)
      } finally {
        const left = (joining.get(projectId) ?? 1) - 1
        if (left > 0) joining.set(projectId, left)
        else {
          joining.delete(projectId)
          // No container may have come of it. The next sweep finds a network that stays.
          await remove(projectId).catch(() => undefined)
        }
      }
    },

    async started(projectId, container) {
      await host?.complete(container)
      await refresh(projectId)
    },
    async left(projectId) {
      if (!(await remove(projectId))) await refresh(projectId)
    },
    sweep: async () => void (await sweep()),
    publish: async (port) => host?.publish(port),

    async close() {
      if (await sweep()) await host?.remove()
    },
  }
}

/** Removes the network of a project and its names unless a container is in it; false when one is. */
async function removeUnused(
  { fence }: Pick<ContainerNetworksOptions, 'fence'>,
  engine: Pick<EngineNetworks, 'ofProject' | 'removeEmpty'>,
  names: Pick<ProjectNames, 'remove'>,
  projectId: string,
): Promise<boolean> {
  const found = await engine.ofProject(projectId)
  fence()
  const isRemoved = found === undefined || (await engine.removeEmpty(found.Id))
  if (isRemoved) await names.remove(projectId)
  return isRemoved
}

/** Opens the names by which the containers and the processes of projects find each other. */
function openProjectNames(
  { engine: { call }, host, neighbours, dataDirectory, fence }: ContainerNetworksOptions,
  engine: Pick<EngineNetworks, 'ofProject'>,
): ProjectNames {
  if (host === null || neighbours === null) return noProjectNames
  const containersOf = async (projectId: string): Promise<ProjectContainers | null> => {
    const found = await engine.ofProject(projectId)
    if (found === undefined) return null
    return { bridge: found.Options?.[bridgeOption] ?? '', named: await namedIn({ call }, found.Id) }
  }
  return createProjectNames({ neighbours, folder: join(dataDirectory, 'runtime', 'names'), containersOf, fence })
}

/** Removes the networks of a server that does not run, in which no container is. False when any is left. */
export async function sweepNetworks(options: Pick<ContainerNetworksOptions, 'engine' | 'server'>): Promise<boolean> {
  const engine = engineNetworks(options)
  return removeAll(await projectsOf(engine), async (projectId) => {
    const found = await engine.ofProject(projectId)
    return found === undefined || engine.removeEmpty(found.Id)
  })
}

/** The projects that have a network. */
const projectsOf = async ({ list }: Pick<EngineNetworks, 'list'>): Promise<ReadonlySet<string>> =>
  new Set((await list()).map(({ Labels }) => Labels?.[projectLabel] ?? ''))

async function removeAll(
  projects: ReadonlySet<string>,
  remove: (projectId: string) => Promise<boolean>,
): Promise<boolean> {
  const removed = await Promise.all([...projects].map(remove))
  return removed.every(Boolean)
}

const projectNetwork = (id: string, entry: string | null, names: Mount | null): ContainerNetwork => ({
  hostConfig: {
    NetworkMode: id,
    Mounts: [
      ...(entry === null ? [] : [{ Type: 'bind', Source: entry, Target: entryInside, ReadOnly: true }]),
      ...(names === null ? [] : [names]),
    ],
  },
  entry: entry === null ? [] : [entryInside],
  endpoints: (app) => ({ EndpointsConfig: { [id]: { Aliases: app === null ? [] : [`${app}${nameSuffix}`] } } }),
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

/** The parts of the engine's descriptions that are read here. */
interface Network {
  /** Those that run, by their ids. */
  readonly Containers?: Readonly<Record<string, unknown>> | null
}

interface Container {
  readonly NetworkSettings: { readonly Networks: Readonly<Record<string, Endpoint>> | null }
}

interface Endpoint {
  readonly NetworkID: string
  /** Empty while the container does not run. */
  readonly IPAddress: string
  readonly Aliases?: readonly string[] | null
}

/** Returns the running containers of a network that have a name there; none of a network that does not exist. */
async function namedIn({ call }: Pick<Engine, 'call'>, network: string): Promise<NamedAddress[]> {
  const found = await unlessMissing(call<Network>({ method: 'GET', path: ['networks', network] }), null)
  const named: NamedAddress[] = []
  for (const id of Object.keys(found?.Containers ?? {}).toSorted()) {
    // It may have ended meanwhile.
    const container = await unlessMissing(call<Container>({ method: 'GET', path: ['containers', id, 'json'] }), null)
    for (const endpoint of Object.values(container?.NetworkSettings.Networks ?? {})) {
      if (endpoint.NetworkID === network && endpoint.IPAddress !== '') named.push(...namesOf(endpoint))
    }
  }
  return named
}

const namesOf = ({ IPAddress, Aliases }: Endpoint): NamedAddress[] =>
  (Aliases ?? [])
    .filter((alias) => alias.endsWith(nameSuffix))
    .map((alias) => ({ name: alias.slice(0, -nameSuffix.length), address: IPAddress }))
