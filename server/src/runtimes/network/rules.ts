import type { AddressRange } from '../../platform/config.ts'
import { specialIpv4 } from '../../platform/outbound.ts'
import { cidrOf, type Names, type Subnet } from './addresses.ts'
import { type Address, isLoopback, joined, loopbackPorts, type PortRange, type Reach, type Resolver } from './reach.ts'

/** The input for the rules, with all names resolved. */
export interface Policy {
  readonly range: AddressRange
  readonly reach: Reach
  readonly resolvers: readonly Resolver[]
  readonly services: readonly Address[]
  readonly mirrors: readonly Address[]
}

/** The construction of the networks of a range. */
export type Medium =
  /** Each network has one member and a separate interface. */
  | 'links'
  /** The members of a network share a bridge. Its packets pass the rules where `br_netfilter` is loaded. */
  | 'bridges'

/**
 * Metadata services of cloud providers answer on link-local addresses. The rules refuse them even where private
 * addresses are allowed.
 */
export const linkLocal = '169.254.0.0/16'
export const dns = 'meta l4proto { tcp, udp } th dport 53'

/**
 * Returns the rules of the host for `nft -f`. They replace the rules of an earlier server atomically. They filter
 * packets from the networks: answers, the internet, resolvers, and the services of this machine for apps.
 *
 * @param known.opened the ports of apps that the gateway has opened
 * @param known.members the networks that reach each other, where they are links
 */
export function hostRules(
  names: Pick<Names, 'table' | 'interfaces' | 'others'>,
  policy: Policy,
  known: { readonly opened: readonly number[]; readonly members: readonly ProjectMember[] },
  medium: Medium = 'links',
): string {
  const { table, interfaces } = names
  const { member, memberType, between, toOtherRuntime, keepSource, arriving } = mediums[medium]
  const own = `"${interfaces}*"`
  const others = `"${names.others}*"`
  const network = cidrOf(policy.range)
  return [
    `table inet ${table}`,
    `delete table inet ${table}`,
    `table inet ${table} {`,
    ...hostSets(policy, known.opened, memberType),
    ...(medium === 'links' ? projectChains(known.members) : []),
    ...arriving(own),
    'chain prerouting { type nat hook prerouting priority dstnat; policy accept;',
    `iifname != ${own} accept`,
    // Networks may talk to each other on a port that stands for a service of this machine.
    'fib daddr type != local accept',
    ...toLoopback(network, names, policy),
    '}',
    // PostgreSQL's access rules allow only loopback.
    'chain arriving { type nat hook input priority 100; policy accept;',
    ...rule(
      ports(policy.reach.localOnly),
      (set) => `iifname ${own} ip daddr 127.0.0.1 tcp dport ${set} snat ip to 127.0.0.1`,
    ),
    '}',
    ...inputChain(own, network, policy, member),
    'chain forward { type filter hook forward priority filter; policy accept;',
    `oifname ${own} ct state established,related accept`,
    ...between(own, others),
    // Packets to a removed network would leave by the default route.
    `iifname ${others} ip daddr ${network} reject`,
    `oifname ${own} drop`,
    `iifname != ${own} accept`,
    'ct state established,related accept',
    `update @beginning { ${member} ${beginning} } reject`,
    ...toOtherRuntime(own, others),
    ...outside(network, names, policy),
    '}',
    // Packets from the machine itself would do the same.
    'chain output { type filter hook output priority filter; policy accept;',
    `ip daddr ${network} oifname != "lo" oifname != "${interfaces.slice(0, 2)}*" reject`,
    '}',
    ...keepSource(own, others),
    'chain postrouting { type nat hook postrouting priority srcnat; policy accept;',
    `ip saddr ${network} iifname ${own} oifname != ${own} oifname != ${others} masquerade`,
    '}',
    '}',
    '',
  ].join('\n')
}

/**
 * Returns the rules inside a network. The gateway reaches every app, also an app that listens only on loopback, and the
 * app sees it at loopback. The services of this machine answer at 127.0.0.1 inside. Other apps of the project reach
 * programs that listen on the address of the network.
 */
export function insideRules(link: string, { host }: Subnet, { reach, resolvers, services, mirrors }: Policy): string {
  const outer = `"${link}"`
  const forwarded = ports([...onLoopback(reach), ...loopbackPorts(services), ...loopbackPorts(mirrors)])
  return [
    'table inet fairlead {',
    'chain prerouting { type nat hook prerouting priority dstnat; policy accept;',
    `iifname ${outer} ip saddr ${host} meta l4proto tcp dnat ip to 127.0.0.1`,
    `iifname ${outer} meta nfproto ipv6 meta l4proto tcp dnat ip6 to ::1`,
    '}',
    'chain arriving { type nat hook input priority 100; policy accept;',
    `iifname ${outer} ip daddr 127.0.0.1 meta l4proto tcp snat ip to 127.0.0.1`,
    `iifname ${outer} ip6 daddr ::1 meta l4proto tcp snat ip6 to ::1`,
    '}',
    'chain leaving { type nat hook output priority -100; policy accept;',
    ...rule(forwarded, (set) => `ip daddr 127.0.0.1 tcp dport ${set} dnat ip to ${host}`),
    ...resolvers
      .filter(({ named }) => isLoopback(named))
      .map(({ named, address }) => `ip daddr ${named} ${dns} dnat ip to ${isLoopback(address) ? host : address}`),
    '}',
    'chain postrouting { type nat hook postrouting priority srcnat; policy accept;',
    `oifname ${outer} ip saddr 127.0.0.0/8 masquerade`,
    '}',
    // All namespaces of a machine share one neighbour table: forged entries would fill it and disconnect everybody.
    'chain neighbours { type filter hook postrouting priority filter; policy accept;',
    `oifname != ${outer} accept`,
    `meta nfproto ipv4 rt ip nexthop != ${host} drop`,
    'meta nfproto ipv6 ct state new,invalid drop',
    '}',
    '}',
    '',
  ].join('\n')
}

/** Returns the commands that replace the mirrors in the host's rules. */
export function mirrorRules({ table }: Pick<Names, 'table'>, mirrors: readonly Address[]): string {
  const elements = mirrors.map(({ address, port }) => `${address} . ${port}`)
  return [
    `flush set inet ${table} mirrors`,
    ...(elements.length === 0 ? [] : [`add element inet ${table} mirrors { ${elements.join(', ')} }`]),
    '',
  ].join('\n')
}

/** Returns the opened ports in the host's rules, as `nft -j list set` prints them. */
export function openedPorts(printed: string): number[] {
  const { nftables } = JSON.parse(printed) as { nftables: { set?: { elem?: unknown[] } }[] }
  return nftables.flatMap(({ set }) => set?.elem ?? []).filter((port) => typeof port === 'number')
}

function inputChain(own: string, network: string, { reach, resolvers }: Policy, member: string): string[] {
  return [
    'chain input { type filter hook input priority filter; policy accept;',
    `iifname != ${own} accept`,
    'ct state established,related accept',
    'icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept',
    // Only TCP, because DNS over UDP never ends a connection.
    ...rule(ports(reach.localOnly), (set) => `tcp dport ${set} update @logins { ${member} ${loginsBeginning} } drop`),
    ...rule(
      ports(reach.localOnly),
      (set) => `tcp dport ${set} add @sessions { ${member} ct count over ${sessionsEach} } reject with tcp reset`,
    ),
    `meta l4proto tcp add @busy { ${member} ct count over ${connectionsEach} } reject with tcp reset`,
    'ip daddr 127.0.0.0/8 ct status dnat accept',
    ...rule(addresses(resolvers), (set) => `ip daddr ${set} ${dns} accept`),
    ...rule(ports(reach.direct), (set) => `ip daddr != ${network} tcp dport ${set} accept`),
    ...(reach.apps?.at === 'direct' ? [`ip daddr != ${network} tcp dport @apps accept`] : []),
    ...refusal,
    '}',
  ]
}

const bridgeMember = 'iifname . ip saddr'

/** The differences between the rules for networks with one member and for networks with several. */
const mediums: Readonly<Record<Medium, MediumRules>> = {
  links: {
    member: 'iifname',
    memberType: 'ifname',
    between: (own, others) => [
      `iifname ${own} oifname ${own} ${toProjects}`,
      `iifname ${own} oifname ${others} ct state established,related accept`,
      `iifname ${own} oifname ${others} ${toProjects}`,
      `iifname ${own} oifname ${others} reject`,
      `iifname ${others} oifname ${own} ${toProjects}`,
    ],
    toOtherRuntime: () => [],
    keepSource: () => [],
    arriving: () => [],
  },
  bridges: {
    member: bridgeMember,
    memberType: 'ifname . ipv4_addr',
    // The route to the sender leads out by the incoming interface: both ends are in the same network.
    between: (own, others) => {
      const inside = `iifname ${own} fib daddr . iif oif exists`
      return [
        `${inside} update @beginning { ${bridgeMember} ${beginning} } reject`,
        `${inside} accept`,
        // The rules of processes have accepted packets from there.
        `iifname ${others} oifname ${own} accept`,
      ]
    },
    toOtherRuntime: (own, others) => [`meta nfproto ipv4 iifname ${own} oifname ${others} accept`],
    // The engine masquerades packets that leave its bridges: a process would mistake a container for the gateway.
    keepSource: (own, others) => [
      'chain keep_source { type nat hook postrouting priority srcnat - 1; policy accept;',
      `iifname ${own} oifname ${others} snat ip to ip saddr`,
      '}',
    ],
    // The kernel would track these packets before any rule could refuse them.
    arriving: (own) => [
      'chain untracked { type filter hook prerouting priority raw; policy accept;',
      `iifname ${own} meta pkttype { broadcast, multicast } notrack`,
      '}',
    ],
  },
}

interface MediumRules {
  /** Identifies a member, whose connections are counted. */
  readonly member: string
  readonly memberType: string
  /** Rules between the apps of a project, for processes and containers. */
  readonly between: (own: string, others: string) => readonly string[]
  /** Rules for packets to apps of the other runtime, after the count of connections. */
  readonly toOtherRuntime: (own: string, others: string) => readonly string[]
  /** Chains that keep the sender address of packets to the other runtime. */
  readonly keepSource: (own: string, others: string) => readonly string[]
  readonly arriving: (own: string) => readonly string[]
}

function hostSets({ services, mirrors }: Policy, opened: readonly number[], member: string): string[] {
  return [
    ...addressSet('services', services),
    ...addressSet('mirrors', mirrors),
    'set apps { type inet_service;',
    ...(opened.length === 0 ? [] : [`elements = { ${opened.join(', ')} }`]),
    '}',
    `set busy { type ${member}; size 65535; flags dynamic; }`,
    `set sessions { type ${member}; size 65535; flags dynamic; }`,
    `set logins { type ${member}; size 65535; flags dynamic; timeout 1h; }`,
    `set beginning { type ${member}; size 65535; flags dynamic; timeout 1h; }`,
  ]
}

/** Returns the command that adds the opened port of an app to the host's rules. */
export const openedRule = ({ table }: Pick<Names, 'table'>, port: number): string =>
  `add element inet ${table} apps { ${port} }\n`

/** Requests for this machine's loopback arrive at the host's end. */
function toLoopback(
  network: string,
  { interfaces }: Pick<Names, 'interfaces'>,
  { reach, resolvers, services, mirrors }: Policy,
): string[] {
  const local = resolvers.find(({ address }) => isLoopback(address))
  const to = (set: string) => `ip daddr ${network} tcp dport ${set} dnat ip to 127.0.0.1`
  return [
    ...(local === undefined ? [] : [`ip daddr ${network} ${dns} dnat ip to ${local.address}`]),
    ...rule(ports([...reach.loopback, ...loopbackPorts(services)]), to),
    ...(reach.apps?.at === 'loopback' ? [to('@apps')] : []),
    ...rule(ports(loopbackPorts(mirrors)), (set) => `iifname "${interfaces}b*" ${to(set)}`),
  ]
}

function outside(network: string, { interfaces }: Pick<Names, 'interfaces'>, { reach, resolvers }: Policy): string[] {
  const allow = reach.outbound.allow.filter((entry) => !entry.includes(':'))
  return [
    // The networks have only IPv4. Ports that other rules forward lead to services of this machine.
    'meta nfproto ipv6 reject',
    'ct status dnat reject',
    `ip daddr ${network} reject`,
    ...rule(addresses(resolvers), (set) => `ip daddr ${set} ${dns} accept`),
    'ip daddr . tcp dport @services accept',
    `iifname "${interfaces}b*" ip daddr . tcp dport @mirrors accept`,
    ...allow.map((entry) => `ip daddr ${entry} accept`),
    `ip daddr ${linkLocal} reject`,
    ...(reach.outbound.mode === 'any' ? [] : specialIpv4.map((entry) => `ip daddr ${entry} reject`)),
  ]
}

const refusal: readonly string[] = ['meta l4proto tcp reject with tcp reset', 'reject']

/** Returns the ports that an app may find at 127.0.0.1, including ports that are not open yet. */
export const onLoopback = ({ loopback, apps }: Reach): PortRange[] => [
  ...loopback,
  ...(apps?.at === 'loopback' ? [apps.ports] : []),
]

function addressSet(name: string, elements: readonly Address[]): string[] {
  const unique = [...new Set(elements.map(({ address, port }) => `${address} . ${port}`))]
  return [
    `set ${name} { type ipv4_addr . inet_service;`,
    ...(unique.length === 0 ? [] : [`elements = { ${unique.join(', ')} }`]),
    '}',
  ]
}

export const addresses = (resolvers: readonly Resolver[]): string[] => [
  ...new Set(resolvers.map(({ address }) => address).filter((address) => !isLoopback(address))),
]

export const ports = (ranges: readonly PortRange[]): string[] => joined(ranges).map(({ from, to }) => `${from}-${to}`)

/** Returns a rule with a set, or no rule for an empty set, which nftables does not accept. */
export const rule = (elements: readonly string[], text: (set: string) => string): string[] =>
  elements.length === 0 ? [] : [text(`{ ${elements.join(', ')} }`)]

/** A project's networks reach each other. */
export interface ProjectMember {
  readonly projectId: string
  readonly address: string
  readonly link: string
  /** The bridge of the containers of the project. Networks and bridge reach each other; null without containers. */
  readonly bridge: string | null
}

type TableNames = Pick<Names, 'table'>

/**
 * Returns the part of the host table that lets the networks of a project reach each other: one chain for each project.
 * Packets from the interfaces of the project go into it.
 */
function projectChains(members: readonly ProjectMember[]): string[] {
  const projects = Map.groupBy(members, ({ projectId }) => checked(projectId))
  const elements = [...projects].flatMap(([projectId, own]) => elementsOf(projectId, own))
  return [
    ...[...projects].flatMap(([projectId, own]) => [
      `set ${projectId} { type ipv4_addr; elements = { ${own.map(({ address }) => address).join(', ')} }; }`,
      `chain ${projectId} {`,
      ...chain(projectId, own[0]?.bridge ?? null),
      '}',
    ]),
    'map projects { type ifname : verdict;',
    ...(elements.length === 0 ? [] : [`elements = { ${elements.join(', ')} }`]),
    '}',
  ]
}

/** Returns the map elements that send packets from the networks and the bridge of a project into its chain. */
function elementsOf(projectId: string, members: readonly Pick<ProjectMember, 'link' | 'bridge'>[]): string[] {
  const interfaces = new Set(members.flatMap(({ link, bridge }) => [link, ...(bridge === null ? [] : [bridge])]))
  return [...interfaces].map((each) => `"${each}" : jump ${projectId}`)
}

const toProjects = 'iifname vmap @projects'

/**
 * Returns the commands that add a network to its project, where it may already be, and set the bridge of the project.
 */
export function memberRules({ table }: TableNames, member: ProjectMember): string {
  const { projectId, address, bridge } = member
  const at = `inet ${table} ${checked(projectId)}`
  return [
    `add set ${at} { type ipv4_addr; }`,
    `add chain ${at}`,
    `flush chain ${at}`,
    ...chain(projectId, bridge).map((rule) => `add rule ${at} ${rule}`),
    `add element ${at} { ${address} }`,
    `add element inet ${table} projects { ${elementsOf(projectId, [member]).join(', ')} }`,
    '',
  ].join('\n')
}

/** Returns the commands that remove the bridge of its containers from a project. */
export const formerBridgeRules = ({ table }: TableNames, bridge: string): string =>
  `delete element inet ${table} projects { "${bridge}" }\n`

/**
 * Returns the commands that remove a network from its project.
 *
 * @param isLast true for the last network of the project: removes the chain, too. The caller removes the bridge before
 */
export function formerMemberRules(
  { table }: TableNames,
  { projectId, address, link }: Omit<ProjectMember, 'bridge'>,
  isLast: boolean,
): string {
  const at = `inet ${table} ${checked(projectId)}`
  return [
    `delete element inet ${table} projects { "${link}" : jump ${projectId} }`,
    `delete element ${at} { ${address} }`,
    ...(isLast ? [`flush chain ${at}`, `delete chain ${at}`, `delete set ${at}`] : []),
    '',
  ].join('\n')
}

/**
 * Accepts connections to the project's networks and containers, at the rate for the outside. Separate rules count the
 * connections of containers.
 */
const chain = (projectId: string, bridge: string | null): string[] => [
  'meta nfproto != ipv4 return',
  `ip daddr != @${projectId} ${bridge === null ? '' : `oifname != "${bridge}" `}return`,
  ...(bridge === null ? [] : [`iifname "${bridge}" accept`]),
  `update @beginning { iifname ${beginning} } reject`,
  'accept',
]

function checked(projectId: string): string {
  if (!/^[a-z][a-z0-9_]*$/.test(projectId)) throw new Error(`${projectId} cannot name a chain`)
  return projectId
}

/**
 * The most open connections of a network to the services of this machine: PostgreSQL, the API and the gateway have room
 * for a limited number in total.
 */
export const connectionsEach = 200
/**
 * The most open connections of a network to PostgreSQL, where a connection before login occupies a session. No plan
 * allows more for a database.
 */
export const sessionsEach = 100
/**
 * The most new connections of a network to the outside: the kernel remembers the connections of all networks in one
 * table, and an ended connection for two minutes.
 */
export const beginning = 'limit rate over 100/second burst 2000 packets'
/**
 * The most new connections of a network to PostgreSQL, which starts a process for each. Further connections are
 * dropped, so the client tries again a second later.
 */
export const loginsBeginning = 'limit rate over 100/second burst 200 packets'
