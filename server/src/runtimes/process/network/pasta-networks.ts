import type { ChildProcess } from 'node:child_process'
import { networkInterfaces } from 'node:os'
import {
  familyOf,
  findProcesses,
  groupProcesses,
  isRunning,
  killAll,
  killGroup,
  networkOf,
  type ProcessIdentity,
  readStat,
  sendSignal,
  startProcess,
  startTimeOf,
  variableOf,
} from '../../../platform/processes.ts'
import { namesOf, type Subnet, subnetAt } from '../../network/addresses.ts'
import { policyOf } from '../../network/host-table.ts'
import type { PortRange } from '../../network/reach.ts'
import { runTool, ToolError } from '../../network/tools.ts'
import type { ForwardedPorts, Network } from './network.ts'
import type { Networks, NetworksOptions, Owner } from './networks.ts'
import { pastaRules, redirectRules } from './pasta-rules.ts'
import { createPorts, type Ports } from './ports.ts'

/** The holder of a network carries the data directory and the owner in this variable. */
const variable = 'FAIRLEAD_NETWORK'

export interface PastaNetworksOptions extends Pick<NetworksOptions, 'dataDirectory' | 'range' | 'reach'> {
  readonly tools: PastaTools
  readonly ports: PortRange
}

/**
 * Tries whether this machine can have networks for a server without root. Returns them, or the reason why it cannot.
 * Pasta connects each network with the machine: without privileges, it makes the connections of the network as ordinary
 * connections of the user of the server.
 *
 * @param check a command line that must succeed in such a network
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
      // Pasta has IPv6 only where the machine has an IPv6 route.
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
    // All apps' connections belong to one user of this machine, so no rule could separate projects.
    introduce: async (network) => network,
    hostsOf: () => null,
    neighbours: null,
    enterThatOf: (pid) => enterThatOf(tools, pid),
    async redirect({ pid }, ports) {
      const [first = '', ...rest] = enterThatOf(tools, pid)
      await runTool(first, [...rest, tools.nft, '-f', '-'], redirectRules(ports))
    },
    remove,
    // Rules inside a network cannot change later, so they name the whole range.
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
    // An app must start fast and needs no mirrors.
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
    // Pasta has bound the ports by now, and keeps them.
    for (const port of reserved) ports.release(port)
  }
}

const enterThatOf = ({ nsenter }: Pick<PastaTools, 'nsenter'>, pid: number): string[] => [
  nsenter,
  ...['--target', String(pid), '--user', '--net', '--preserve-credentials', '--'],
]

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

async function end(holders: readonly number[]): Promise<void> {
  const leaders = holders.flatMap((pid) => [pid, readStat(pid)?.parent ?? pid]).flatMap(identityOf)
  if (leaders.length > 0) await killAll({ leaders }, { graceMs: 0 })
}

export function endNetwork(holder: ProcessIdentity): void {
  if (isRunning(holder)) sendSignal(holder.pid, 'SIGKILL')
}

function identityOf(pid: number): ProcessIdentity[] {
  const startTime = startTimeOf(pid)
  return startTime === null ? [] : [{ pid, startTime }]
}

/**
 * `pasta` (passt), `nft` (nftables), `nsenter` and `setpriv` (util-linux), `sleep` (coreutils) and `sh`, as absolute
 * paths.
 */
export interface PastaTools {
  readonly pasta: string
  readonly nft: string
  readonly nsenter: string
  readonly setpriv: string
  readonly sleep: string
  readonly sh: string
}

export interface PastaOptions {
  readonly tools: PastaTools
  readonly subnet: Subnet
  readonly rules: string
  /** False for an IPv4-only network, so that `localhost` is 127.0.0.1. */
  readonly hasIpv6: boolean
  /** `null` for a network without incoming connections. */
  readonly forwarded: ForwardedPorts | null
  readonly mark: { readonly name: string; readonly value: string }
}

/** Pasta takes some milliseconds. A slower machine cannot start apps either. */
const timeoutMs = 20_000

/** Sets the rules, reports that the network exists, and sleeps. Its arguments are its only input. */
const holder = `"$1" -f - || exit
echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet || exit
if [ "$2" = ipv4 ]; then echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; fi
echo ready
exec "$3" --pdeathsig KILL "$4" infinity >/dev/null 2>&1`

/**
 * Returns the process that holds the new network. A program in its user and network namespaces has all rights over the
 * network. Pasta and the holder outlive the server, and each ends with the other. Rejects with a `ToolError` where this
 * machine allows no such network.
 */
export async function startPasta(options: PastaOptions): Promise<ProcessIdentity> {
  const { tools, rules, hasIpv6, mark } = options
  const inside = [tools.sh, '-c', holder, 'sh', tools.nft, hasIpv6 ? 'both' : 'ipv4', tools.setpriv, tools.sleep]
  const child = startProcess(tools.pasta, [...argumentsOf(options), '--', ...inside], {
    cwd: '/',
    env: { [mark.name]: mark.value },
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  await untilReady(child, tools.pasta, rules)
  child.unref()
  const found = child.pid === undefined ? undefined : await childOf(child.pid)
  if (found === undefined) throw new ToolError(`${tools.pasta} ended at once`)
  return found
}

function argumentsOf({ subnet: { host, inside }, hasIpv6, forwarded }: PastaOptions): string[] {
  return [
    ...['--foreground', '--quiet', '--config-net', '--address', inside, '--netmask', '30', '--gateway', host],
    ...(hasIpv6 ? [] : ['--ipv4-only']),
    ...(forwarded === null ? ['-t', 'none'] : ['-t', `127.0.0.1/${forwarded.ipv4}`]),
    ...(forwarded === null || forwarded.ipv6 === null ? [] : ['-t', `::1/${forwarded.ipv6}:${forwarded.ipv4}`]),
    ...['-u', 'none', '-T', 'none', '-U', 'none'],
  ]
}

function untilReady(child: ChildProcess, program: string, rules: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let [told, said] = ['', '']
    const end = () => child.pid !== undefined && killGroup(child.pid)
    const fail = (why: string) => {
      clearTimeout(timer)
      reject(new ToolError(`${program} ${why}: ${said.trim()}`))
    }
    const timer = setTimeout(() => {
      end()
      fail('is not ready')
    }, timeoutMs)
    child.on('error', (error) => fail(error.message))
    // When pasta fails, its child waits for ever with its output open.
    child.on('exit', end)
    child.on('close', (code) => fail(`ended with ${code ?? 'a signal'}`))
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).replace(/^Failed to send .* to syslog\n/gm, '').slice(0, 2_000)
    })
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      told += text
      if (told !== 'ready\n') return
      clearTimeout(timer)
      // After the process has ended, its pid may belong to another.
      child.off('exit', end)
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy()
      resolve()
    })
    child.stdin?.on('error', () => undefined).end(rules)
  })
}

async function childOf(parent: number): Promise<ProcessIdentity | undefined> {
  for (const pid of await familyOf(parent)) {
    const startTime = startTimeOf(pid)
    if (readStat(pid)?.parent === parent && startTime !== null) return { pid, startTime }
  }
  return undefined
}
