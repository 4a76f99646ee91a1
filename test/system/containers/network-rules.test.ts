import { expect, test } from 'vitest'
import { containerRules } from '../../../server/src/runtimes/docker/network/inside-rules.ts'
import {
  bridgeCount,
  bridgeName,
  bridgeSubnet,
  isRouted,
  routedNetworks,
} from '../../../server/src/runtimes/docker/network/subnets.ts'
import { bridgeNamesOf, namesOf } from '../../../server/src/runtimes/network/addresses.ts'
import { hostRules, type Policy } from '../../../server/src/runtimes/network/rules.ts'
import { noReach } from '../../harness/networks.ts'

const range = { first: 10 * 2 ** 24 + 208 * 2 ** 16, bits: 12 }
const policy: Policy = { range, reach: noReach, resolvers: [], services: [], mirrors: [] }
const names = bridgeNamesOf('/data')

test('each project has a /24 of the range, and a bridge with a valid interface name', () => {
  expect(bridgeCount(range)).toBe(4096)
  expect(bridgeSubnet(range, 0)).toEqual({ index: 0, gateway: '10.208.0.1', cidr: '10.208.0.0/24' })
  expect(bridgeSubnet(range, 4095)).toMatchObject({ gateway: '10.223.255.1', cidr: '10.223.255.0/24' })
  expect(bridgeCount({ bits: 24 })).toBe(1)
  expect(bridgeCount({ bits: 8 })).toBe(65_536)
  expect(bridgeName(names, 65_535).length).toBeLessThanOrEqual(15)
})

test('bridges have separate rules from processes', () => {
  const processes = namesOf('/data')
  expect(names.table).not.toBe(processes.table)
  expect(bridgeName(names, 0).startsWith(processes.interfaces)).toBe(false)
  expect(bridgeNamesOf('/other').interfaces).not.toBe(names.interfaces)
})

test('finds addresses of the machine’s routes, except the default route', () => {
  const table = [
    'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT',
    'eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0',
    'eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0',
    'tun0\t0004D00A\t00000000\t0001\t0\t0\t0\t00FCFFFF\t0\t0\t0',
    'one0\t0709D00A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0',
    '',
  ].join('\n')
  const routed = routedNetworks(table)
  expect(routed).toHaveLength(3)
  const taken = Array.from({ length: 16 }, (_, index) => index).filter((index) => isRouted(range, index, routed))
  // 10.208.4.0/22 and 10.208.9.7.
  expect(taken).toEqual([4, 5, 6, 7, 9])
})

test('containers of a project reach each other, and other projects’ packets are dropped before any is accepted', () => {
  const rules = hostRules(names, policy, { opened: [], members: [] }, 'bridges').split('\n')
  const own = `"${names.interfaces}*"`
  const order = [
    `oifname ${own} ct state established,related accept`,
    `iifname ${own} fib daddr . iif oif exists update @beginning { iifname . ip saddr limit rate over 100/second burst 2000 packets } reject`,
    `iifname ${own} fib daddr . iif oif exists accept`,
    `iifname "${names.others}*" oifname ${own} accept`,
    `iifname "${names.others}*" ip daddr 10.208.0.0/12 reject`,
    `oifname ${own} drop`,
    'update @beginning { iifname . ip saddr limit rate over 100/second burst 2000 packets } reject',
    // The rules of processes decide about these.
    `meta nfproto ipv4 iifname ${own} oifname "${names.others}*" accept`,
    'ip daddr 10.208.0.0/12 reject',
    'ip daddr 169.254.0.0/16 reject',
    'ip daddr 10.0.0.0/8 reject',
  ].map((line) => rules.indexOf(line))
  expect(order).not.toContain(-1)
  expect(order).toEqual([...order].sort((one, other) => one - other))
})

test('a container reaches its allowed services at 127.0.0.1, and only the gateway reaches the container’s loopback', () => {
  const reach = { ...noReach, loopback: [{ from: 30_000, to: 30_099 }] }
  const services = [{ address: '127.0.0.1', port: 5432 }]
  const rules = containerRules('10.208.0.1', { reach, services }).split('\n')
  expect(rules).toContain('ip daddr 127.0.0.1 tcp dport { 5432-5432, 30000-30099 } dnat ip to 10.208.0.1')
  expect(rules.indexOf('ip saddr != 10.208.0.1 accept')).toBeLessThan(
    rules.indexOf('meta l4proto tcp dnat ip to 127.0.0.1'),
  )
  expect(containerRules('10.208.0.1', policy)).not.toContain('dport')
})
