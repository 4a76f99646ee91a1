import { BlockList, isIP } from 'node:net'
import { createOutbound } from '../../platform/outbound.ts'

/** The kind of an address: everybody reaches only public ones. */
export type AddressKind = 'public' | 'private' | 'loopback'

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4')

const publicOnly = createOutbound({ mode: 'public', allow: [], ports: [] })
const loopback = listOf('127.0.0.0/8', '0.0.0.0/8', '::1/128', '::/128')

export function addressKind(address: string): AddressKind {
  if (loopback.check(address, familyOf(address))) return 'loopback'
  return publicOnly.allows(address) ? 'public' : 'private'
}

const networks = [
  ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '169.254.0.0/16', '127.0.0.0/8', '0.0.0.0/8'],
  ...['fc00::/7', 'fe80::/10', '::1/128', '::/128'],
].map((network) => ({ network, list: listOf(network) }))

/**
 * Returns an address for a message. Of those that are not public only the network is told: a name of a stranger may lead to
 * one of the operator's, which the recursive server knows and the stranger must not learn.
 */
export function shown(address: string): string {
  if (addressKind(address) === 'public') return address
  const known = networks.find(({ list }) => list.check(address, familyOf(address)))
  return known === undefined ? 'an address that is not public' : `an address in ${known.network}`
}

function listOf(...entries: readonly string[]): BlockList {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', bits = '0'] = entry.split('/')
    list.addSubnet(address, Number(bits), familyOf(address))
  }
  return list
}

/** Returns `a, b and c`; of many the first ones. */
export function listed(items: readonly string[], most = 4): string {
  const unique = [...new Set(items)]
  const all = unique.length > most ? [...unique.slice(0, most), `${unique.length - most} more`] : unique
  return all.length < 2 ? (all[0] ?? '') : `${all.slice(0, -1).join(', ')} and ${all[all.length - 1]}`
}

/** Returns a text that came from DNS or a web server: one short line of characters that can be seen. */
export function readable(text: string): string {
  const seen = text.replace(/[^ -~]/g, '?').trim()
  return seen.length > 100 ? `${seen.slice(0, 100)}…` : seen
}

const units = [
  { name: 'day', seconds: 86_400 },
  { name: 'hour', seconds: 3_600 },
  { name: 'minute', seconds: 60 },
] as const

/** Returns a time in seconds in words, rounded up. */
export function lasting(seconds: number): string {
  const unit = units.find((each) => seconds >= each.seconds)
  if (unit === undefined) return 'a minute'
  const count = Math.ceil(seconds / unit.seconds)
  return count === 1 ? `${unit.name === 'hour' ? 'an' : 'a'} ${unit.name}` : `${count} ${unit.name}s`
}
