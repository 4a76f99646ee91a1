import { readdir, readFile, readlink, stat, writeFile } from 'node:fs/promises'
import { unlessShort } from '../../../platform/processes.ts'
import {
  interfaceName,
  ipv6Of,
  type Names,
  type NetworkKind,
  namesOf,
  parseNamespace,
  type Subnet,
} from '../../network/addresses.ts'
import { removeHostTable } from '../../network/host-table.ts'
import { inputPath, runTool, ToolError, type Tools } from '../../network/tools.ts'

const folder = '/run/netns'

export interface Namespace {
  readonly name: string
  /** The name of two interfaces: on the host, and inside the namespace. */
  readonly link: string
  readonly subnet: Subnet
}

export interface NamedNamespace {
  readonly name: string
  readonly index: number
  readonly id: string
  readonly kind: NetworkKind
}

/**
 * Makes a namespace and connects it with the host by a pair of interfaces. Returns a function that completes the inside
 * with nftables rules; a program may enter before. Rejects with a `ToolError` that says "File exists" when the
 * addresses are taken; the caller then removes the namespace.
 */
export async function makeNamespace(
  { ip, nft, cp }: Tools,
  { name, link, subnet: { host, inside, cidr } }: Namespace,
  rules: string,
): Promise<() => Promise<void>> {
  const hasIpv6 = await exists('/proc/net/if_inet6')
  const outer = [
    `netns add ${name}`,
    `link add ${link} type veth peer name ${link} netns ${name}`,
    `addr add ${host}/30 dev ${link} noprefixroute`,
    ...(hasIpv6 ? [`addr add ${ipv6Of(host)}/126 dev ${link} nodad`] : []),
    `link set ${link} up`,
    // The kernel accepts only one route to a host, which reserves addresses among all servers of a machine.
    `route add ${cidr} dev ${link} src ${host}`,
  ]
  await runTool(ip, ['-batch', '-'], lines(outer))
  const inner = [
    'link set lo up',
    `addr add ${inside}/30 dev ${link}`,
    ...(hasIpv6 ? [`addr add ${ipv6Of(inside)}/126 dev ${link} nodad`] : []),
    `link set ${link} up`,
    `route add default via ${host}`,
    // Without this route the kernel refuses connections for ::1 that arrive through an interface.
    ...(hasIpv6 ? [`route add local ::1/128 dev ${link} table local`] : []),
  ]
  // One child starts the others: forking the large server process is slow, and builds wait for it.
  const within = [
    `${ip} -batch ${inputPath(0)}`,
    `${cp} ${inputPath(1)} /proc/sys/net/ipv4/conf/all/route_localnet`,
    `${nft} -f ${inputPath(2)}`,
  ].map((command) => `netns exec ${name} ${command}`)
  return async () => {
    await Promise.all([
      writeFile(`/proc/sys/net/ipv4/conf/${link}/route_localnet`, '1'),
      runTool(ip, ['-batch', '-'], lines(within), [lines(inner), '1', rules]),
    ])
  }
}

/** Returns a command prefix that enters a namespace and then executes the next program. It needs root. */
export const enterNamespace = ({ nsenter }: Pick<Tools, 'nsenter'>, name: string): string[] => [
  nsenter,
  `--net=${folder}/${name}`,
  '--',
]

export async function ownNamespaces(names: Names): Promise<NamedNamespace[]> {
  const all = await readdir(folder).catch(unlessShort([]))
  return all.flatMap((name) => {
    const parsed = parseNamespace(names, name)
    return parsed === null ? [] : [{ name, ...parsed }]
  })
}

/** Removes a namespace by its name. Processes in the namespace stay there without a connection. */
export async function removeNamespace(tools: Pick<Tools, 'ip'>, names: Names, named: NamedNamespace): Promise<void> {
  // The kernel removes a namespace some time after its last process, but an interface immediately.
  const both = [`link delete ${interfaceName(names, named.kind, named.index)}`, `netns delete ${named.name}`]
  await runTool(tools.ip, ['-force', '-batch', '-'], lines(both)).catch(ignoreAllMissing)
}

/** Removes empty namespaces of this server. Returns the others. */
export async function sweepNamespaces(tools: Pick<Tools, 'ip'>, names: Names): Promise<NamedNamespace[]> {
  const own = await ownNamespaces(names)
  if (own.length === 0) return []
  const used = await linksInUse(names)
  const left: NamedNamespace[] = []
  for (const named of own) {
    if (used.has(interfaceName(names, named.kind, named.index))) left.push(named)
    // A newer namespace may have the same number.
    else if (await exists(`${folder}/${named.name}`)) await removeNamespace(tools, names, named)
  }
  return left
}

/**
 * Removes the networks of a data directory in which nothing runs, and the rules of the server when no network is left.
 * Returns the remaining namespaces.
 */
export async function removeNetworks(
  tools: Pick<Tools, 'ip' | 'nft'>,
  dataDirectory: string,
): Promise<NamedNamespace[]> {
  const names = namesOf(dataDirectory)
  const left = await sweepNamespaces(tools, names)
  if (left.length === 0) await removeHostTable(tools, names)
  return left
}

/**
 * Returns the names of the interfaces of this server in the namespaces of all processes. The names in /run/netns do not
 * prove it: for a systemd service, the names from its earlier run are empty files.
 */
async function linksInUse({ interfaces }: Names): Promise<Set<string>> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const seen = new Map<string, string>()
  for (const pid of pids) {
    const namespace = await readlink(`/proc/${pid}/ns/net`).catch(() => '')
    // The process has ended, or even root may not inspect it.
    if (namespace === '') continue
    if (!seen.has(namespace)) seen.set(namespace, await readFile(`/proc/${pid}/net/dev`, 'utf8').catch(unlessShort('')))
  }
  seen.delete(await readlink('/proc/self/ns/net'))
  const names = [...seen.values()].flatMap((table) => table.match(/^\s*[^\s:]+(?=:)/gm) ?? [])
  return new Set(names.map((name) => name.trim()).filter((name) => name.startsWith(interfaces)))
}

/** `ip` prints one line for each failed command of a batch. */
function ignoreAllMissing(error: unknown): void {
  const said = error instanceof ToolError ? error.message.split('\n') : ['']
  if (!said.every((line) => missing.test(line) || /^Command failed /.test(line))) throw error
}

const missing = /Cannot find device|No such file/

const lines = (commands: readonly string[]): string => `${commands.join('\n')}\n`

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )
