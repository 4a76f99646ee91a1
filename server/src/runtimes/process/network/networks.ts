import { randomInt } from 'node:crypto'
import type { AddressRange } from '../../../platform/config.ts'
import type { ProcessIdentity } from '../../../platform/processes.ts'
import {
  interfaceName,
  type Names,
  type NetworkKind,
  namesOf,
  namespaceName,
  subnetAt,
  subnetCount,
} from '../../network/addresses.ts'
import { policyOf, publishPort, setHostTable } from '../../network/host-table.ts'
import type { Neighbours } from '../../network/neighbours.ts'
import { type Reach, readResolvers } from '../../network/reach.ts'
import { insideRules, mirrorRules, type Policy } from '../../network/rules.ts'
import { runTool, ToolError, type Tools } from '../../network/tools.ts'
import {
  enterNamespace,
  makeNamespace,
  ownNamespaces,
  removeNamespace,
  removeNetworks,
  sweepNamespaces,
} from './namespaces.ts'
import type { Network } from './network.ts'
import { type Member, openProjects, type Projects } from './projects.ts'

/** The owner of a network: an app or a build of a release. */
export interface Owner {
  /** Of the release. */
  readonly id: string
  readonly kind: NetworkKind
}

/** Networks of apps and builds: namespaces of the kernel, which outlive the server with the processes in them. */
export interface Networks {
  /** Makes a network, in place of an earlier one of the same owner. */
  open(owner: Owner): Promise<Network>
  /**
   * Lets the app of a network and the others of its project reach each other, where networks have addresses. Returns the network,
   * which is ready when that is done.
   */
  introduce(network: Network, project: Pick<Member, 'projectId' | 'name'>): Promise<Network>
  /** Returns the folder with the file `hosts` that the apps of a project see; null where they do not reach each other. */
  hostsOf(projectId: string): string | null
  /** Sets which containers apps reach; null where networks have no addresses. */
  readonly neighbours: Neighbours | null
  /** Returns the program that enters the network of a running process, with its arguments. */
  enterThatOf(pid: number): string[]
  /**
   * Leads connections that `holder`'s network has for the port `from` to its port `to`, in place of an earlier one. Networks
   * with an address take connections at every port, and need no such thing.
   */
  redirect(holder: ProcessIdentity, ports: { readonly from: number; readonly to: number }): Promise<void>
  /** Begins to remove the network of an owner: its processes are cut off soon. */
  remove(owner: Owner): Promise<void>
  /** Lets apps reach the port of an app, which the gateway has opened on this machine. */
  publish(port: number): Promise<void>
  /** Removes the networks of this server in which nothing runs. */
  sweep(): Promise<void>
  /** Removes the networks in which nothing runs, and the rules when no network is left. */
  close(): Promise<void>
}

export interface NetworksOptions {
  readonly tools: Tools
  readonly dataDirectory: string
  readonly range: AddressRange
  readonly reach: Reach
}

/** Opens the networks where this machine can have them, which is tried; else returns the reason why not. */
export async function tryNetworks(options: NetworksOptions): Promise<Networks | string> {
  const trial: Owner = { id: 'trial', kind: 'app' }
  try {
    const networks = await openNetworks(options)
    const { ready } = await networks.open(trial)
    await ready.finally(() => networks.remove(trial))
    await networks.sweep()
    return networks
  } catch (error) {
    return (error as Error).message
  }
}

/** Sets the host's rules and returns the networks. Rejects with a `ToolError` on a machine that cannot have them. */
async function openNetworks(options: NetworksOptions): Promise<Networks> {
  const { tools, range, dataDirectory } = options
  const names = namesOf(dataDirectory)
  const count = subnetCount(range)
  let policy = await policyOf(options)
  const restore = () => setHostTable(tools, names, policy, 'links', { members: projects.members() })
  const projects = await openProjects({ ...options, names, namespaces: await ownNamespaces(names), restore })
  await restore()
  // All are used in turn, so that a late packet for an app that has ended reaches no other one.
  let next = randomInt(count)
  const numbers: Numbers = {
    take() {
      next = (next + 1) % count
      return next
    },
    making: new Set(),
  }

  /** Resolvers change, and mirrors move. An app, which starts in a hurry, needs no names looked up. */
  const refresh = async (kind: NetworkKind): Promise<void> => {
    if (kind === 'app') {
      policy = { ...policy, resolvers: await readResolvers() }
      return
    }
    const earlier = JSON.stringify(policy.mirrors)
    policy = await policyOf(options)
    if (JSON.stringify(policy.mirrors) === earlier) return
    await runTool(tools.nft, ['-f', '-'], mirrorRules(names, policy.mirrors))
  }

  const { remove, removed } = createRemoval(tools, names, projects)

  return {
    async open(owner) {
      await remove(owner)
      await refresh(owner.kind)
      return makeNetwork({ tools, names, range, policy }, owner, numbers)
    },

    introduce: projects.introduce,
    hostsOf: projects.hostsOf,
    neighbours: projects.neighbours,
    enterThatOf: (pid) => [tools.nsenter, `--net=/proc/${pid}/ns/net`, '--'],
    redirect: async () => undefined,
    remove,

    publish: (port) => publishPort(tools, names, port),

    async sweep() {
      await removed()
      await projects.keep(await sweepNamespaces(tools, names))
    },

    async close() {
      await removed()
      await projects.keep(await removeNetworks(tools, dataDirectory))
    },
  }
}

/** Removes networks in the background: the kernel takes its time, and the next network has another number. */
function createRemoval(
  tools: Tools,
  names: Names,
  projects: Pick<Projects, 'leave'>,
): Pick<Networks, 'remove'> & { removed(): Promise<unknown> } {
  const removing = new Map<string, Promise<void>>()
  return {
    async remove({ id, kind }) {
      for (const named of await ownNamespaces(names)) {
        if (named.id !== id || named.kind !== kind || removing.has(named.name)) continue
        const removal = Promise.all([projects.leave(named), removeNamespace(tools, names, named)])
          .then(() => undefined)
          // The next start of the server removes it, and its number is not taken until then.
          .catch(() => undefined)
          .finally(() => removing.delete(named.name))
        removing.set(named.name, removal)
      }
    },
    removed: () => Promise.all(removing.values()),
  }
}

interface Numbers {
  /** Returns the number of another network of the range. */
  take(): number
  /** The numbers of networks that are being made. */
  readonly making: Set<number>
}

/** A network that fails is removed by its number, so that nobody else may make one of that number meanwhile. */
async function makeNetwork(
  { tools, names, range, policy }: Pick<NetworksOptions, 'tools' | 'range'> & { names: Names; policy: Policy },
  owner: Owner,
  { take, making }: Numbers,
): Promise<Network> {
  const takenNumbers = async () => new Set((await ownNamespaces(names)).map(({ index }) => index))
  const taken = await takenNumbers()
  for (let tried = 0; tried < subnetCount(range); tried += 1) {
    const index = take()
    if (taken.has(index) || making.has(index)) continue
    const subnet = subnetAt(range, index)
    const name = namespaceName(names, owner, index)
    const link = interfaceName(names, owner.kind, index)
    making.add(index)
    try {
      // Another one may have been made since.
      if ((await takenNumbers()).has(index)) continue
      const ready = await makeNamespace(tools, { name, link, subnet }, insideRules(link, subnet, policy))
      return { address: subnet.inside, forward: null, enter: enterNamespace(tools, name), ready: ready() }
    } catch (error) {
      await removeNamespace(tools, names, { name, index, ...owner })
      if (!(error instanceof ToolError && error.message.includes('File exists'))) throw error
    } finally {
      making.delete(index)
    }
  }
  throw new Error('no network is left for another app. Widen FAIRLEAD_APP_NETWORK.')
}

/** Networks that can be opened before they are needed: it takes several programs. */
export interface NetworksAhead extends Networks {
  /** Begins to open a network, which the next `open` of this owner returns, if that comes soon. */
  prepare(owner: Owner): void
}

/** The network of one that was opened earlier may lead to resolvers or mirrors that have changed. */
const freshMs = 60_000

export function openAhead(networks: Networks, now: () => number = () => performance.now()): NetworksAhead {
  const prepared = new Map<string, { readonly opened: Promise<Network | null>; readonly since: number }>()
  /** One is made at a time, since what they are for is also starting. */
  let last: Promise<unknown> = Promise.resolve()
  const keyOf = ({ id, kind }: Owner) => `${id}.${kind}`
  const take = async (owner: Owner): Promise<Network | null> => {
    const found = prepared.get(keyOf(owner))
    prepared.delete(keyOf(owner))
    const network = (await found?.opened) ?? null
    return found !== undefined && now() - found.since < freshMs ? network : null
  }

  return {
    ...networks,

    prepare(owner) {
      if (prepared.has(keyOf(owner))) return
      // Without it, `open` tries again, and says why it fails.
      const opened = last
        .then(() => networks.open(owner))
        .then(async (network) => {
          await network.ready
          return network
        })
        .catch(() => null)
      last = opened
      prepared.set(keyOf(owner), { opened, since: now() })
    },

    open: async (owner) => (await take(owner)) ?? networks.open(owner),

    async remove(owner) {
      await take(owner)
      await networks.remove(owner)
    },

    async close() {
      await last
      await networks.close()
    },
  }
}
