import { isIPv4 } from 'node:net'
import { z } from 'zod'

/** The IPv4 addresses for networks. */
export interface AddressRange {
  /** The first address as a number. */
  readonly first: number
  /** The length of the network prefix in bits, 8 to 24. */
  readonly bits: number
}

const message = 'must be an IPv4 network with a prefix of 8 to 24 bits, such as 198.18.0.0/15'

/** Networks for tests between devices (RFC 2544), which no route of a machine or of the internet leads to. */
const unused: AddressRange = { first: 198 * 2 ** 24 + 18 * 2 ** 16, bits: 15 }

/** A part of the private addresses of RFC 1918 that neither Docker's own networks nor those of clouds begin with. */
const forContainers: AddressRange = { first: 10 * 2 ** 24 + 208 * 2 ** 16, bits: 12 }

export const appNetworkSettings = {
  FAIRLEAD_APP_NETWORK: z
    .string()
    .transform((value, context): AddressRange | null => {
      if (value === 'none') return null
      return parsed(value) ?? refused(context, `${message}, or none`)
    })
    .default(unused),
  FAIRLEAD_CONTAINER_NETWORK: z
    .string()
    .transform((value, context): AddressRange => parsed(value) ?? refused(context, message))
    .default(forContainers),
}

function parsed(value: string): AddressRange | null {
  const [address = '', prefix = ''] = value.split('/')
  const bits = /^\d{1,2}$/.test(prefix) ? Number(prefix) : 0
  const first = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
  const isNetwork = isIPv4(address) && bits >= 8 && bits <= 24 && first % 2 ** (32 - bits) === 0
  return isNetwork ? { first, bits } : null
}

function refused(context: z.RefinementCtx, text: string): never {
  context.addIssue({ code: 'custom', message: text })
  return z.NEVER
}

/** Returns what is wrong with the two ranges together, which have rules of their own; null when nothing is. */
export function networkProblem(set: {
  readonly FAIRLEAD_APP_NETWORK: AddressRange | null
  readonly FAIRLEAD_CONTAINER_NETWORK: AddressRange
}): string | null {
  const [processes, containers] = [set.FAIRLEAD_APP_NETWORK, set.FAIRLEAD_CONTAINER_NETWORK]
  if (processes === null) return null
  const lastOf = ({ first, bits }: AddressRange) => first + 2 ** (32 - bits) - 1
  const overlap = containers.first <= lastOf(processes) && processes.first <= lastOf(containers)
  return overlap ? 'must have no addresses of FAIRLEAD_APP_NETWORK' : null
}
