import { specialIpv4 } from '../../../platform/outbound.ts'
import { cidrOf, type NetworkKind, type Subnet } from '../../network/addresses.ts'
import { isLoopback, loopbackPorts } from '../../network/reach.ts'
import {
  addresses,
  beginning,
  connectionsEach,
  dns,
  linkLocal,
  loginsBeginning,
  onLoopback,
  type Policy,
  ports,
  rule,
  sessionsEach,
} from '../../network/rules.ts'

export interface PastaRules {
  readonly kind: NetworkKind
  /** Pasta answers at `host`, and forwards to the machine's loopback. */
  readonly subnet: Subnet
  /** This machine's IPv4 addresses that are not loopback. */
  readonly own: readonly string[]
}

/**
 * Returns the rules inside a network that pasta connects with the machine. Pasta makes every requested connection, so
 * these rules decide everything, and they are set before the network loses the right to change them. That is why they
 * allow the whole port range of apps. Connections to the app need no rule: pasta makes them inside, on loopback.
 */
export function pastaRules({ kind, subnet: { host, inside, cidr }, own }: PastaRules, policy: Policy): string {
  const { reach, resolvers, services } = policy
  const mirrors = kind === 'build' ? policy.mirrors : []
  const named = [...services, ...mirrors].filter(({ address }) => !isLoopback(address))
  const forwarded = ports([...onLoopback(reach), ...loopbackPorts(services), ...loopbackPorts(mirrors)])
  const ofMachine = own.length === 0 ? [] : [`{ ${own.join(', ')} }`]
  const allow = reach.outbound.allow.filter((entry) => !entry.includes(':'))
  return [
    'table inet fairlead {',
    'chain redirected { }',
    'chain leaving { type nat hook output priority -100; policy accept;',
    'jump redirected',
    ...rule(forwarded, (set) => `ip daddr 127.0.0.1 tcp dport ${set} dnat ip to ${host}`),
    ...resolvers
      .filter((each) => isLoopback(each.named))
      .map((each) => `ip daddr ${each.named} ${dns} dnat ip to ${isLoopback(each.address) ? host : each.address}`),
    '}',
    // The packet still has its interface from before the address translation, so only addresses are compared.
    'chain output { type filter hook output priority filter; policy accept;',
    `ip daddr { 127.0.0.0/8, ${inside} } accept`,
    'ip6 daddr ::1 accept',
    'meta nfproto ipv6 reject',
    ...rule(ports(reach.localOnly), (set) => `ip daddr ${host} tcp dport ${set} ct state new ${loginsBeginning} drop`),
    ...rule(
      ports(reach.localOnly),
      (set) => `ip daddr ${host} tcp dport ${set} ct state new ct count over ${sessionsEach} reject with tcp reset`,
    ),
    `ip daddr { ${[host, ...own].join(', ')} } meta l4proto tcp ct state new ct count over ${connectionsEach} reject with tcp reset`,
    `ip daddr ${host} ct status dnat accept`,
    `ip daddr ${cidr} reject`,
    `ct state new ${beginning} reject`,
    ...rule(addresses(resolvers), (set) => `ip daddr ${set} ${dns} accept`),
    ...rule(
      [...new Set(named.map(({ address, port }) => `${address} . ${port}`))],
      (set) => `ip daddr . tcp dport ${set} accept`,
    ),
    ...ofMachine.flatMap((machine) => [
      ...rule(
        ports([...reach.direct, ...(reach.apps?.at === 'direct' ? [reach.apps.ports] : [])]),
        (set) => `ip daddr ${machine} tcp dport ${set} accept`,
      ),
      `ip daddr ${machine} reject`,
    ]),
    // Other servers of the machine may have networks in this range.
    `ip daddr ${cidrOf(policy.range)} reject`,
    ...allow.map((entry) => `ip daddr ${entry} accept`),
    `ip daddr ${linkLocal} reject`,
    ...(reach.outbound.mode === 'any' ? [] : specialIpv4.map((entry) => `ip daddr ${entry} reject`)),
    '}',
    'chain postrouting { type nat hook postrouting priority srcnat; policy accept;',
    'oifname != "lo" ip saddr 127.0.0.0/8 masquerade',
    '}',
    '}',
    '',
  ].join('\n')
}

/**
 * Returns commands for `nft -f` that redirect connections from the port of the app to another port. They replace
 * earlier redirections. Pasta makes its connections inside, on loopback, so they count as outgoing.
 */
export function redirectRules({ from, to }: { readonly from: number; readonly to: number }): string {
  const rules =
    from === to
      ? []
      : ['ip daddr 127.0.0.1', 'ip6 daddr ::1'].map((daddr) => `${daddr} tcp dport ${from} redirect to :${to}`)
  return [
    'flush chain inet fairlead redirected',
    ...rules.map((each) => `add rule inet fairlead redirected ${each}`),
    '',
  ].join('\n')
}
