import type { AddressRange } from '../../../platform/config.ts'
import { type BridgeNames, dotted } from '../../network/addresses.ts'

/** The addresses of a project network: 253 for containers, and one for the bridge, the host end. */
export interface BridgeSubnet {
  /** The number of the network, counted from the start of the range. */
  readonly index: number
  readonly gateway: string
  readonly cidr: string
}

const prefix = 24
const size = 2 ** (32 - prefix)

export function bridgeSubnet({ first }: AddressRange, index: number): BridgeSubnet {
  const base = first + index * size
  return { index, gateway: dotted(base + 1), cidr: `${dotted(base)}/${prefix}` }
}

/** The number of networks, at most 65,536: the range has a prefix of at least 8 bits. */
export const bridgeCount = ({ bits }: Pick<AddressRange, 'bits'>): number => 2 ** (prefix - bits)

/** Returns the name of a bridge: at most 15 characters, the limit of the kernel. */
export const bridgeName = ({ interfaces }: Pick<BridgeNames, 'interfaces'>, index: number): string =>
  `${interfaces}${index.toString(16).padStart(4, '0')}`

/** The target network of a route of this machine, from its first to its last address. */
export interface Routed {
  readonly from: number
  readonly to: number
}

/** Parses /proc/net/route, where addresses are hexadecimal with the last byte first. Skips the default route. */
export function routedNetworks(table: string): Routed[] {
  return table
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const [, destination = '', , , , , , mask = ''] = line.split(/\s+/)
      if (destination === '' || swapped(mask) === 0) return []
      const from = swapped(destination)
      return [{ from, to: from + (0xffff_ffff - swapped(mask)) }]
    })
}

/** True when a route of this machine leads to an address in the network. */
export function isRouted({ first }: AddressRange, index: number, routed: readonly Routed[]): boolean {
  const base = first + index * size
  return routed.some(({ from, to }) => from < base + size && to >= base)
}

function swapped(hex: string): number {
  return Buffer.from(hex.padStart(8, '0'), 'hex').readUInt32LE()
}
