import { createHash } from 'node:crypto'
import type { AddressRange } from '../../platform/config.ts'

/** Apps and builds may reach different addresses, so the names of their interfaces differ. */
export type NetworkKind = 'app' | 'build'

/** A network of four IPv4 addresses in the range. The host has the second address, the app or build the third. */
export interface Subnet {
  /** The number of the network, counted from the start of the range. */
  readonly index: number
  readonly host: string
  readonly inside: string
  readonly cidr: string
}

/** @throws Error when the index is outside of the range */
export function subnetAt(range: AddressRange, index: number): Subnet {
  if (index < 0 || index >= subnetCount(range)) throw new Error(`no network has the number ${index}`)
  const base = range.first + 4 * index
  return { index, host: dotted(base + 1), inside: dotted(base + 2), cidr: `${dotted(base)}/30` }
}

/** The number of networks, at most 65,536: the name of an interface has room for four hexadecimal digits. */
export const subnetCount = ({ bits }: Pick<AddressRange, 'bits'>): number => Math.min(2 ** (30 - bits), 2 ** 16)

/** Returns the network with this inside address; null for any other address. */
export function subnetOf(range: AddressRange, inside: string): Subnet | null {
  const number = inside.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
  const index = (number - 2 - range.first) / 4
  return Number.isInteger(index) && index >= 0 && index < subnetCount(range) ? subnetAt(range, index) : null
}

export const cidrOf = ({ first, bits }: AddressRange): string => `${dotted(first)}/${bits}`

/**
 * Returns the unique local IPv6 address (RFC 4193) for an IPv4 address; neighbours share a /126. It only leads from the
 * host to apps that listen on IPv6 loopback.
 */
export function ipv6Of(ipv4: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = ipv4.split('.').map(Number)
  return `fdfa:171e:ad00::${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
}

/** The names that one server uses. The data directory distinguishes the servers of a machine. */
export interface Names {
  readonly table: string
  readonly namespaces: string
  readonly interfaces: string
  /** The prefix of the names of the bridges of its containers. They have a separate table. */
  readonly others: string
}

export function namesOf(dataDirectory: string): Names {
  const hash = hashOf(dataDirectory)
  return {
    table: `fairlead-${hash.slice(0, 16)}`,
    namespaces: `fairlead-${hash.slice(0, 16)}-`,
    interfaces: `fl${hash.slice(0, 8)}`,
    others: `fc${hash.slice(0, 8)}`,
  }
}

export interface BridgeNames {
  readonly table: string
  readonly interfaces: string
  readonly others: string
}

export function bridgeNamesOf(dataDirectory: string): BridgeNames {
  const processes = namesOf(dataDirectory)
  return {
    table: `fairlead-${hashOf(dataDirectory).slice(0, 16)}-containers`,
    interfaces: processes.others,
    others: processes.interfaces,
  }
}

const hashOf = (dataDirectory: string): string => createHash('sha256').update(dataDirectory).digest('hex')

/** Returns the name of an interface of the host: at most 15 characters, the limit of the kernel. */
export const interfaceName = ({ interfaces }: Pick<Names, 'interfaces'>, kind: NetworkKind, index: number): string =>
  `${interfaces}${kind[0]}${hex(index)}`

export const namespaceName = (
  { namespaces }: Pick<Names, 'namespaces'>,
  owner: { readonly id: string; readonly kind: NetworkKind },
  index: number,
): string => `${namespaces}${hex(index)}-${owner.id}.${owner.kind}`

/** Parses the name of a namespace; `null` for a foreign name. */
export function parseNamespace(
  { namespaces }: Pick<Names, 'namespaces'>,
  name: string,
): { readonly index: number; readonly id: string; readonly kind: NetworkKind } | null {
  if (!name.startsWith(namespaces)) return null
  const [, index, id, kind] = /^([\da-f]{4})-(.+)\.(app|build)$/.exec(name.slice(namespaces.length)) ?? []
  if (index === undefined || id === undefined) return null
  return { index: Number.parseInt(index, 16), id, kind: kind === 'app' ? 'app' : 'build' }
}

const hex = (index: number): string => index.toString(16).padStart(4, '0')
export const dotted = (address: number): string => [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join('.')
