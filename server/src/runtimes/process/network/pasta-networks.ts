import { networkInterfaces } from 'node:os'
import {
  findProcesses,
  groupProcesses,
  isRunning,
  killAll,
  networkOf,
  type ProcessIdentity,
  readStat,
  sendSignal,
  startTimeOf,
  variableOf,
} from '../../../platform/processes.ts'
import { namesOf, subnetAt } from '../../network/addresses.ts'
import { policyOf } from '../../network/host-table.ts'
import type { PortRange } from '../../network/reach.ts'
import { runTool, ToolError } from '../../network/tools.ts'
import type { Network } from './network.ts'
import type { Networks, NetworksOptions, Owner } from './networks.ts'
import { type ForwardedPorts, type PastaTools, startPasta } from './pasta.ts'
import { pastaRules, redirectRules } from './pasta-rules.ts'
import { createPorts, type Ports } from './ports.ts'

/** The holder of a network carries the data directory and the owner in this variable. */
const variable = 'FAIRLEAD_NETWORK'

export interface PastaNetworksOptions extends Pick<NetworksOptions, 'dataDirectory' | 'range' | 'reach'> {
  readonly tools: PastaTools
  /** The ports of this machine's loopback that lead to apps. */
  readonly ports: PortRange
}

/**
 * Opens networks for a server that is not root where this machine can have them, which is tried; else returns the reason why
 * not. Pasta joins each with the machine: without privileges, it makes the connections of its network as ordinary ones of
 * the server's user.
 *
 * @param check a program that has to run in such a network, with its arguments
 */
export async function tryPastaNetworks(
  options: PastaNetworksOptions,
  check: readonly string[],
): Promise<Networks | string> {
  const trial: Owner = { id: 'trial', kind: 'app' }
  try {
    const networks = openPastaNetworks(options)
    const { enter } = await networks.open(trial)
    const [first = '', ...rest] = [...enter, ...check]
    await runTool(first, rest).finally(() => networks.remove(trial))
    await networks.sweep()
    return networks
  } catch (error) {
    return (error as Error).message
  }
}

function openPastaNetworks(options: PastaNetworksOptions): Networks {
  const { tools, dataDirectory } = options
  const markOf = ({ id, kind }: Owner) => `${namesOf(dataDirectory).namespaces}${id}.${kind}`
  const ports = createPorts(options.ports)
  let hasIpv6 = true

  const start = async (owner: Owner): Promise<Network> => {
    const begin = (ipv6: boolean) => startNetwork(options, { owner, value: markOf(owner), ports, hasIpv6: ipv6 })
    if (!hasIpv6) return begin(false)
    try {
      return await begin(true)
    } catch (error) {
      // Pasta has IPv6 only where the machine has a route for it.
      if (!(error instanceof ToolError)) throw error
      const network = await begin(false)
      hasIpv6 = false
      return network
    }
  }
  const remove: Networks['remove'] = async (owner) => end(await findProcesses({ name: variable, value: markOf(owner) }))
  const sweep = () => removePastaNetworks(dataDirectory)

  return {
    async open(owner) {
      await remove(owner)
      return start(owner)
    },
    // The apps of all networks would be the same user's of this machine.
    introduce: async (network) => network,
    hostsOf: () => null,
    neighbours: null,
    enterThatOf: (pid) => enterThatOf(tools, pid),
    async redirect({ pid }, ports) {
      const [first = '', ...rest] = enterThatOf(tools, pid)
      await runTool(first, [...rest, tools.nft, '-f', '-'], redirectRules(ports))
    },
    remove,
    // The rules inside name the whole range: nobody can change them any more.
    publish: async () => undefined,
    sweep,
    close: sweep,
  }
}

async function startNetwork(
  { tools, range, reach }: PastaNetworksOptions,
  { owner, value, ports, hasIpv6 }: { owner: Owner; value: string; ports: Ports; hasIpv6: boolean },
): Promise<Network> {
  const subnet = subnetAt(range, 0)
  const own = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
  const machine = own.filter(({ family, internal }) => family === 'IPv4' && !internal).map(({ address }) => address)
  const reserved: number[] = []
  const reserve = async () => {
    const port = await ports.reserve()
    reserved.push(port)
    return port
  }
  try {
    const forwarded: ForwardedPorts | null =
      owner.kind === 'build' ? null : { ipv4: await reserve(), ipv6: hasIpv6 ? await reserve() : null }
    // An app, which starts in a hurry, needs no mirrors looked up.
    const policy = await policyOf({ range, reach: owner.kind === 'build' ? reach : { ...reach, mirrors: [] } })
    const rules = pastaRules({ kind: owner.kind, subnet, own: [...new Set(machine)] }, policy)
    const mark = { name: variable, value }
    const holder = await startPasta({ tools, subnet, rules, hasIpv6, forwarded, mark })
    return {
      address: null,
      forward: forwarded === null ? null : { ...forwarded, holder },
      enter: enterThatOf(tools, holder.pid),
      ready: Promise.resolve(),
    }
  } finally {
    // Pasta has bound them by now, and holds them for as long as the network exists.
    for (const port of reserved) ports.release(port)
  }
}

const enterThatOf = ({ nsenter }: Pick<PastaTools, 'nsenter'>, pid: number): string[] => [
  nsenter,
  ...['--target', String(pid), '--user', '--net', '--preserve-credentials', '--'],
]

/** Ends the networks of a data directory in which nothing runs. */
export async function removePastaNetworks(dataDirectory: string): Promise<void> {
  const { namespaces } = namesOf(dataDirectory)
  const processes = new Map<string, number[]>()
  const holders = new Set<number>()
  await groupProcesses((pid) => {
    if (variableOf(pid, variable)?.startsWith(namespaces)) holders.add(pid)
    const network = networkOf(pid)
    if (network !== null) processes.set(network, [...(processes.get(network) ?? []), pid])
    return null
  })
  const unused = [...holders].filter((pid) => {
    const others = processes.get(networkOf(pid) ?? '') ?? []
    return others.every((other) => holders.has(other))
  })
  await end(unused)
}

/** Ends holders of networks, and pasta with them. */
async function end(holders: readonly number[]): Promise<void> {
  const leaders = holders.flatMap((pid) => [pid, readStat(pid)?.parent ?? pid]).flatMap(identityOf)
  if (leaders.length > 0) await killAll({ leaders }, { graceMs: 0 })
}

/** Ends the holder of a network, and with it the network. */
export function endNetwork(holder: ProcessIdentity): void {
  if (isRunning(holder)) sendSignal(holder.pid, 'SIGKILL')
}

function identityOf(pid: number): ProcessIdentity[] {
  const startTime = startTimeOf(pid)
  return startTime === null ? [] : [{ pid, startTime }]
}
