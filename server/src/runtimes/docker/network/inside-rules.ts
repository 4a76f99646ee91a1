import { joined, loopbackPorts } from '../../network/reach.ts'
import { onLoopback, type Policy, ports, rule } from '../../network/rules.ts'

/** The most neighbours that a container may contact within a minute, in addition to the host. */
const neighboursEach = 64

/**
 * Returns the rules inside the network of a container. They replace earlier rules. The gateway also reaches programs
 * that listen only on loopback, and the services of this machine answer at 127.0.0.1 inside.
 *
 * @param gateway the address of the host end of the network
 */
export function containerRules(gateway: string, { reach, services }: Pick<Policy, 'reach' | 'services'>): string {
  const forwarded = ports(joined([...onLoopback(reach), ...loopbackPorts(services)]))
  return [
    'table inet fairlead',
    'delete table inet fairlead',
    'table inet fairlead {',
    `set met { type ipv4_addr; size ${neighboursEach}; flags dynamic, timeout; timeout 1m; }`,
    'chain prerouting { type nat hook prerouting priority dstnat; policy accept;',
    `ip saddr != ${gateway} accept`,
    'iifname "lo" accept',
    // A program that listens on the destination gets the connection, whether it listens on this address or on all
    // addresses.
    'meta l4proto tcp socket wildcard { 0, 1 } accept',
    'meta l4proto tcp dnat ip to 127.0.0.1',
    '}',
    'chain leaving { type nat hook output priority -100; policy accept;',
    ...rule(forwarded, (set) => `ip daddr 127.0.0.1 tcp dport ${set} dnat ip to ${gateway}`),
    '}',
    'chain postrouting { type nat hook postrouting priority srcnat; policy accept;',
    'oifname != "lo" ip saddr 127.0.0.0/8 masquerade',
    '}',
    // All namespaces of a machine share one neighbour table: forged entries would fill it and disconnect everybody.
    'chain neighbours { type filter hook postrouting priority filter; policy accept;',
    'oifname "lo" accept',
    'meta nfproto ipv6 ct state new,invalid drop',
    `rt ip nexthop ${gateway} accept`,
    'update @met { ip daddr } accept',
    'drop',
    '}',
    '}',
    '',
  ].join('\n')
}
