import { expect, test } from 'vitest'
import {
  interfaceName,
  ipv6Of,
  namesOf,
  namespaceName,
  parseNamespace,
  subnetAt,
  subnetCount,
  subnetOf,
} from '../../../server/src/runtimes/network/addresses.ts'
import { joined, resolversOf, servicesIn } from '../../../server/src/runtimes/network/reach.ts'
import { hostRules, insideRules, type Policy } from '../../../server/src/runtimes/network/rules.ts'
import { pastaRules } from '../../../server/src/runtimes/process/network/pasta-rules.ts'
import { noReach, testNetwork } from '../../harness/networks.ts'

const names = namesOf('/data')
const policy: Policy = { range: testNetwork, reach: noReach, resolvers: [], services: [], mirrors: [] }

test('networks take four addresses each, and their numbers fit into interface names', () => {
  expect(subnetAt(testNetwork, 0)).toMatchObject({ host: '198.18.0.1', inside: '198.18.0.2', cidr: '198.18.0.0/30' })
  expect(subnetAt(testNetwork, 64)).toMatchObject({ host: '198.18.1.1', inside: '198.18.1.2' })
  expect(subnetCount(testNetwork)).toBe(32_768)
  expect(subnetCount({ bits: 8 })).toBe(65_536)
  expect(subnetAt(testNetwork, 32_767).inside).toBe('198.19.255.254')
  expect(() => subnetAt(testNetwork, 32_768)).toThrow('no network')
  expect(interfaceName(names, 'build', 65_535)).toHaveLength(15)
  expect(ipv6Of('198.18.1.2')).toBe('fdfa:171e:ad00::c612:102')
  for (const index of [0, 64, 32_767]) {
    const subnet = subnetAt(testNetwork, index)
    expect(subnetOf(testNetwork, subnet.inside)).toEqual(subnet)
    expect(subnetOf(testNetwork, subnet.host)).toBeNull()
  }
  for (const other of ['198.17.255.254', '198.20.0.2', '10.0.0.2']) expect(subnetOf(testNetwork, other)).toBeNull()
})

test('the name of a namespace shows its owner, unless it belongs to another data directory', () => {
  const name = namespaceName(names, { id: 'dep_1', kind: 'build' }, 77)
  expect(parseNamespace(names, name)).toEqual({ index: 77, id: 'dep_1', kind: 'build' })
  expect(parseNamespace(namesOf('/other'), name)).toBeNull()
  expect(parseNamespace(names, 'm1')).toBeNull()
})

test('a resolver on loopback is queried on the host, except systemd’s, which answers only loopback', () => {
  const upstream = 'nameserver 192.0.2.53\n'
  expect(resolversOf('nameserver 127.0.0.53\noptions edns0\n', upstream)).toEqual([
    { named: '127.0.0.53', address: '192.0.2.53' },
  ])
  const resolvers = resolversOf('# none\nnameserver 127.0.0.1\nnameserver ::1\nnameserver 9.9.9.9\n', upstream)
  expect(resolvers.map(({ address }) => address)).toEqual(['127.0.0.1', '9.9.9.9'])
  const inside = insideRules('fl0', subnetAt(testNetwork, 0), { ...policy, resolvers })
  expect(inside).toContain('ip daddr 127.0.0.1 meta l4proto { tcp, udp } th dport 53 dnat ip to 198.18.0.1')
  const host = hostRules(names, { ...policy, resolvers }, { opened: [], members: [] })
  expect(host).toContain('ip daddr 198.18.0.0/15 meta l4proto { tcp, udp } th dport 53 dnat ip to 127.0.0.1')
  expect(host).toContain('ip daddr { 9.9.9.9 } meta l4proto { tcp, udp } th dport 53 accept')
})

test('containers reach only the processes of their project, whose connections are counted at their source', () => {
  const members = ['198.18.0.2', '198.18.0.6'].map((address, index) => ({
    ...{ projectId: 'proj_a', address, link: `fl${index}`, bridge: 'fc7' },
  }))
  const lone = { projectId: 'proj_b', address: '198.18.0.10', link: 'fl2', bridge: null }
  const rules = hostRules(names, policy, { opened: [], members: [...members, lone] }).split('\n')
  expect(rules).toContain(
    'elements = { "fl0" : jump proj_a, "fc7" : jump proj_a, "fl1" : jump proj_a, "fl2" : jump proj_b }',
  )
  const chain = rules.slice(rules.indexOf('chain proj_a {') + 1)
  expect(chain.slice(0, 5)).toEqual([
    'meta nfproto != ipv4 return',
    'ip daddr != @proj_a oifname != "fc7" return',
    'iifname "fc7" accept',
    'update @beginning { iifname limit rate over 100/second burst 2000 packets } reject',
    'accept',
  ])
  const [own, others] = [names.interfaces, names.others].map((prefix) => `"${prefix}*"`)
  const order = [
    `iifname ${others} oifname ${own} iifname vmap @projects`,
    `iifname ${others} ip daddr 198.18.0.0/15 reject`,
    `oifname ${own} drop`,
  ].map((line) => rules.indexOf(line))
  expect(order).not.toContain(-1)
  expect(order).toEqual([...order].sort((one, other) => one - other))
})

test('proxies and mirrors are found in variables and settings', () => {
  const settings = '[global]\nindex-url = https://user:word@pypi.example.com/simple\ntrusted-host = pypi.example.com\n'
  expect(servicesIn(['http://127.0.0.1:3128', settings, '/etc/ssl/certs', 'http://127.0.0.1:3128/'])).toEqual([
    { host: '127.0.0.1', port: 3128 },
    { host: 'pypi.example.com', port: 443 },
  ])
})

test('ranges of ports that overlap or touch become one', () => {
  const one = (from: number, to = from) => ({ from, to })
  expect(joined([one(20_000, 29_999), one(3000), one(25_000), one(30_000, 30_999)])).toEqual([
    one(3000),
    one(20_000, 30_999),
  ])
})

test('without root, mirrors are only for builds, and private addresses are refused after the allowed ones', () => {
  const own = ['192.0.2.2']
  const subnet = subnetAt(testNetwork, 0)
  const reach = { ...noReach, outbound: { mode: 'public' as const, allow: ['10.1.0.0/16'] } }
  const mirrors = [
    { address: '127.0.0.1', port: 4873 },
    { address: '10.9.9.9', port: 8081 },
  ]
  const [app, build] = (['app', 'build'] as const).map((kind) =>
    pastaRules({ kind, subnet, own }, { ...policy, reach, mirrors }).split('\n'),
  )
  const forMirrors = [
    'ip daddr 127.0.0.1 tcp dport { 4873-4873 } dnat ip to 198.18.0.1',
    'ip daddr . tcp dport { 10.9.9.9 . 8081 } accept',
  ]
  for (const line of forMirrors) {
    expect(app).not.toContain(line)
    expect(build).toContain(line)
  }
  const at = (line: string) => app?.indexOf(line) ?? -1
  const order = [
    'ip daddr { 192.0.2.2 } reject',
    'ip daddr 10.1.0.0/16 accept',
    'ip daddr 169.254.0.0/16 reject',
    'ip daddr 10.0.0.0/8 reject',
  ].map(at)
  expect(order).not.toContain(-1)
  expect(order).toEqual([...order].sort((one, other) => one - other))
})
