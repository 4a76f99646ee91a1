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

/** The folder in which `ip netns` keeps its names. */
const folder = '/run/netns'

/** A namespace with its addresses. */
export interface Namespace {
  readonly name: string
  /** The host's interface that leads there, and the one inside. */
  readonly link: string
  readonly subnet: Subnet
}

/** A namespace of this server as its name tells it. */
export interface NamedNamespace {
  readonly name: string
  /** Of its subnet. */
  readonly index: number
  /** Of the release that it belongs to. */
  readonly id: string
  readonly kind: NetworkKind
}

/**
 * Makes a namespace and joins it with the host by a pair of interfaces. Resolves with a function that completes its inside,
 * with these nftables rules, for which a program may enter it already. Rejects with a `ToolError` that says "File exists" when
 * the addresses are taken; it then has to be removed.
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
    // The kernel accepts a route of one host only once, and so hands out the addresses among all servers of a machine.
    `route add ${cidr} dev ${link} src ${host}`,
  ]
  await runTool(ip, ['-batch', '-'], lines(outer))
  const inner = [
    'link set lo up',
    `addr add ${inside}/30 dev ${link}`,
    ...(hasIpv6 ? [`addr add ${ipv6Of(inside)}/126 dev ${link} nodad`] : []),
    `link set ${link} up`,
    `route add default via ${host}`,
    // Without this route the kernel takes no connection for ::1 that came through an interface.
    ...(hasIpv6 ? [`route add local ::1/128 dev ${link} table local`] : []),
  ]
  // One process of the server's starts the others: starting one is dear for a large process, and builds wait for it.
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

/** Returns the program that enters a namespace and becomes the next one, with its arguments; it needs the rights of root. */
export const enterNamespace = ({ nsenter }: Pick<Tools, 'nsenter'>, name: string): string[] => [
  nsenter,
  `--net=${folder}/${name}`,
  '--',
]

/** Lists the namespaces of this server. */
export async function ownNamespaces(names: Names): Promise<NamedNamespace[]> {
  const all = await readdir(folder).catch(unlessShort([]))
  return all.flatMap((name) => {
    const parsed = parseNamespace(names, name)
    return parsed === null ? [] : [{ name, ...parsed }]
  })
}

/** Removes a namespace by its name. Processes in it keep it, but are cut off. */
export async function removeNamespace(tools: Pick<Tools, 'ip'>, names: Names, named: NamedNamespace): Promise<void> {
  // The kernel takes a namespace away some time after its last process; its interface goes at once.
  const both = [`link delete ${interfaceName(names, named.kind, named.index)}`, `netns delete ${named.name}`]
  await runTool(tools.ip, ['-force', '-batch', '-'], lines(both)).catch(ignoreAllMissing)
}

/** Removes the namespaces of this server in which nothing runs. Returns those that are left. */
export async function sweepNamespaces(tools: Pick<Tools, 'ip'>, names: Names): Promise<NamedNamespace[]> {
  const own = await ownNamespaces(names)
  if (own.length === 0) return []
  const used = await linksInUse(names)
  const left: NamedNamespace[] = []
  for (const named of own) {
    if (used.has(interfaceName(names, named.kind, named.index))) left.push(named)
    // Its number may be another one's since.
    else if (await exists(`${folder}/${named.name}`)) await removeNamespace(tools, names, named)
  }
  return left
}

/**
 * Removes the networks of a server's data directory in which nothing runs, and its rules when no network is left. Returns the
 * namespaces that are left.
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
 * Returns the names of this server's interfaces in the namespaces of all processes. The names in /run/netns do not tell:
 * to a service of systemd, those of its earlier run are empty files.
 */
async function linksInUse({ interfaces }: Names): Promise<Set<string>> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const seen = new Map<string, string>()
  for (const pid of pids) {
    const namespace = await readlink(`/proc/${pid}/ns/net`).catch(() => '')
    // Of a process that has ended, or that even root may not look into.
    if (namespace === '') continue
    if (!seen.has(namespace)) seen.set(namespace, await readFile(`/proc/${pid}/net/dev`, 'utf8').catch(unlessShort('')))
  }
  seen.delete(await readlink('/proc/self/ns/net'))
  const names = [...seen.values()].flatMap((table) => table.match(/^\s*[^\s:]+(?=:)/gm) ?? [])
  return new Set(names.map((name) => name.trim()).filter((name) => name.startsWith(interfaces)))
}

/** A batch says on a line of its own which of its commands failed, for each of them. */
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
