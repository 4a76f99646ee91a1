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

export interface Owner {
  readonly id: string
  readonly kind: NetworkKind
}

/** Networks of apps and builds: kernel namespaces, which outlive the server together with their processes. */
export interface Networks {
  /** Makes a network. Replaces an earlier network of the same owner. */
  open(owner: Owner): Promise<Network>
  /** Lets the apps of a project reach each other, where networks have addresses. The result's `ready` includes this. */
  introduce(network: Network, project: Pick<Member, 'projectId' | 'name'>): Promise<Network>
  /** Returns the folder with the file `hosts` for the apps of a project; null where apps cannot reach each other. */
  hostsOf(projectId: string): string | null
  /** Sets which containers the apps reach; null where networks have no addresses. */
  readonly neighbours: Neighbours | null
  enterThatOf(pid: number): string[]
  /**
   * Redirects port `from` in the network of `holder` to port `to`, in place of an earlier redirection. Networks with an
   * address take connections on every port and need none.
   */
  redirect(holder: ProcessIdentity, ports: { readonly from: number; readonly to: number }): Promise<void>
  /** Begins the removal. Its processes soon lose their connections. */
  remove(owner: Owner): Promise<void>
  /** Lets apps reach the port of an app that the gateway has opened on this machine. */
  publish(port: number): Promise<void>
  sweep(): Promise<void>
  /** Removes networks in which nothing runs, and the rules when no network is left. */
  close(): Promise<void>
}

export interface NetworksOptions {
  readonly tools: Tools
  readonly dataDirectory: string
  readonly range: AddressRange
  readonly reach: Reach
}

/** Tries whether this machine can have networks. Returns them, or the reason why it cannot. */
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

/**
 * Sets the rules of the host and returns the networks. Rejects with a `ToolError` on a machine that cannot have
 * networks.
 */
async function openNetworks(options: NetworksOptions): Promise<Networks> {
  const { tools, range, dataDirectory } = options
  const names = namesOf(dataDirectory)
  const count = subnetCount(range)
  let policy = await policyOf(options)
  const restore = () => setHostTable(tools, names, policy, 'links', { members: projects.members() })
  const projects = await openProjects({ ...options, names, namespaces: await ownNamespaces(names), restore })
  await restore()
  // Networks take all numbers in turn, so a late packet for an ended app reaches no other.
  let next = randomInt(count)
  const numbers: Numbers = {
    take() {
      next = (next + 1) % count
      return next
    },
    making: new Set(),
  }

  /** Resolvers and mirrors change. An app must start fast and needs no mirrors, so only builds look names up. */
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

/** Removes networks in the background: the kernel is slow, and the next network has another number. */
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
          // The server's next start removes it. Its number stays taken until then.
          .catch(() => undefined)
          .finally(() => removing.delete(named.name))
        removing.set(named.name, removal)
      }
    },
    removed: () => Promise.all(removing.values()),
  }
}

interface Numbers {
  take(): number
  readonly making: Set<number>
}

/**
 * The number of a failed network stays reserved until its removal, so that nobody else makes a network of this number.
 */
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
      // Another process may have made a network with this number since then.
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

/** Networks that can be prepared: opening one takes several programs. */
export interface PreparableNetworks extends Networks {
  /** Begins to open a network. The next `open` of this owner returns it, if the call comes soon. */
  prepare(owner: Owner): void
}

/** An older prepared network may lead to resolvers or mirrors that have changed. */
const freshMs = 60_000

export function preparableNetworks(
  networks: Networks,
  now: () => number = () => performance.now(),
): PreparableNetworks {
  const prepared = new Map<string, { readonly opened: Promise<Network | null>; readonly since: number }>()
  /** One at a time: the build or app that needs the network is starting, too. */
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
      // After a failure, `open` tries again and reports the reason.
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
