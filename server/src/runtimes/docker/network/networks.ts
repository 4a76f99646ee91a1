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

/** Each project has one bridge of the engine while it has containers. */
export interface ContainerNetworks {
  /** True when the gateway reaches programs that listen only on 127.0.0.1. */
  readonly leadsToLoopback: boolean
  /** The path on this machine of the first program in containers; null when containers begin with their command. */
  readonly entry: string | null
  /**
   * Calls `use` with the network of a project. The network exists until `use` settles, and afterwards while it has a
   * container.
   */
  join<T>(projectId: string, use: (network: ContainerNetwork) => Promise<T>): Promise<T>
  /**
   * Completes the inside of the network of a container, after each of its starts and again in each later server. From
   * then on, processes of the project and the container reach each other.
   */
  started(projectId: string, container: RunningContainer): Promise<void>
  /** Removes the network of a project when it has no container. */
  left(projectId: string): Promise<void>
  sweep(): Promise<void>
  /** Lets containers reach the port of an app that the gateway has opened on this machine. */
  publish(port: number): Promise<void>
  /** Removes empty networks, and the host's rules when no network remains. */
  close(): Promise<void>
}

/** The settings that put a new container into a network. */
export interface ContainerNetwork {
  readonly hostConfig: {
    readonly NetworkMode: string
    readonly Mounts: readonly Mount[]
  }
  /** The first words of the command: the program that waits for `started`. */
  readonly entry: readonly string[]
  /** @param app the name of the app for the other apps of the project, as `<app>.internal`; null without a name */
  endpoints(app: string | null): { readonly EndpointsConfig?: object }
}

/**
 * Returns the settings that put another container into the network of a running container. Both know the same names.
 *
 * @param mounts all mounts of the running container
 */
export function networkOfContainer(id: string, mounts: readonly Mount[]): ContainerNetwork {
  const names = mounts.filter(({ Target }) => Target === hostsInside)
  return { hostConfig: { NetworkMode: `container:${id}`, Mounts: names }, entry: [], endpoints: () => ({}) }
}

export interface ContainerNetworksOptions {
  readonly engine: Pick<Engine, 'call'>
  /** The id of the data directory labels all objects of this server. */
  readonly server: string
  readonly dataDirectory: string
  readonly range: AddressRange
  /** Null when this machine cannot have rules for containers. */
  readonly host: HostNetwork | null
  /** The connection between processes and containers of a project; null where they do not reach each other. */
  readonly neighbours: Neighbours | null
  /** Called right before the server makes or removes an object; throws when another server leads. */
  readonly fence: () => void
}

/** The engine's description, as far as Fairlead uses it. */
interface EngineNetwork {
  readonly Id: string
  readonly Labels: Readonly<Record<string, string>> | null
  readonly Options: Readonly<Record<string, string>> | null
  /** The running containers; only in the description of a single network. */
  readonly Containers?: Readonly<Record<string, unknown>> | null
}

const bridgeOption = 'com.docker.network.bridge.name'

export function createContainerNetworks(options: ContainerNetworksOptions): ContainerNetworks {
  const { host } = options
  const lock = createKeyedLock()
  /** The number of starting containers in the network of each project. */
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
          // Perhaps no container was made. The next sweep removes a remaining network.
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

/** Removes the network of a project and its names; false when it has a container. */
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

/** Sets up the names by which containers and processes of projects find each other. */
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

/** Removes the networks of a stopped server that have no container. False when any network remains. */
export async function sweepNetworks(options: Pick<ContainerNetworksOptions, 'engine' | 'server'>): Promise<boolean> {
  const engine = engineNetworks(options)
  return removeAll(await projectsOf(engine), async (projectId) => {
    const found = await engine.ofProject(projectId)
    return found === undefined || engine.removeEmpty(found.Id)
  })
}

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

/**
 * Makes the network of a project at the first free addresses, from a random start: no route and no network may use
 * them.
 */
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

/** The attempts, and the pause between them. */
const tries = 10
const pauseMs = 300

/**
 * Retries: the engine fails while another program loads the firewall of the machine, where the engine has chains.
 *
 * @param discard removes the leftovers of a failed call
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

/** The engine refuses addresses and bridges of its other networks, independent of their creator. */
function unlessTaken(error: unknown): null {
  if (error instanceof EngineError && /overlap|conflicts with network/i.test(error.detail)) return null
  throw error
}

interface EngineNetworks {
  list(): Promise<EngineNetwork[]>
  ofProject(projectId: string): Promise<EngineNetwork | undefined>
  get(id: string): Promise<EngineNetwork>
  create(wanted: { projectId: string; bridge: string; cidr: string; gateway: string }): Promise<string>
  /** Removes a network; false when it has a container. */
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

/** A container may have started in the network since the check. */
function unlessInUse(error: unknown): false {
  if (error instanceof EngineError && error.status === 403) return false
  throw error
}

/** The engine's descriptions, as far as Fairlead uses them. */
interface Network {
  readonly Containers?: Readonly<Record<string, unknown>> | null
}

interface Container {
  readonly NetworkSettings: { readonly Networks: Readonly<Record<string, Endpoint>> | null }
}

interface Endpoint {
  readonly NetworkID: string
  /** Empty unless the container runs. */
  readonly IPAddress: string
  readonly Aliases?: readonly string[] | null
}

/** Returns the running containers of a network with a name in it; empty for an unknown network. */
async function namedIn({ call }: Pick<Engine, 'call'>, network: string): Promise<NamedAddress[]> {
  const found = await unlessMissing(call<Network>({ method: 'GET', path: ['networks', network] }), null)
  const named: NamedAddress[] = []
  for (const id of Object.keys(found?.Containers ?? {}).toSorted()) {
    // The container may have ended since the list.
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
