import { isIPv4 } from 'node:net'
import { availableParallelism } from 'node:os'
import { z } from 'zod'
import { type EdgeSet, httpsPort } from './edge.ts'
import { configError } from './errors.ts'
import type { NetworkSet } from './server.ts'
import { domain, port, type Range, range } from './values.ts'

/** A port for each app, or one listener that distinguishes apps by host name. */
export type AppsConfig =
  | { readonly mode: 'ports'; readonly publicHost: string; readonly ports: Range }
  | {
      readonly mode: 'hostnames'
      readonly domain: string
      readonly scheme: 'http' | 'https'
      readonly publicPort: number
      readonly gatewayPort: number
    }

export const appsSettings = {
  FAIRLEAD_APP_PORTS: range.default({ from: 20000, to: 29999 }),
  FAIRLEAD_APPS_DOMAIN: domain.optional(),
  FAIRLEAD_APPS_SCHEME: z.enum(['http', 'https']).optional(),
  FAIRLEAD_APPS_PORT: port.optional(),
  FAIRLEAD_GATEWAY_PORT: port.default(8080),
  FAIRLEAD_GATEWAY_WORKERS: z
    .string()
    .regex(/^[1-9]\d{0,2}$/, 'must be a number from 1 to 999')
    .transform(Number)
    // Apps, builds and PostgreSQL need the other half.
    .default(() => Math.max(1, Math.floor(availableParallelism() / 2))),
}

export type AppsSet = z.output<z.ZodObject<typeof appsSettings>>

export function appsConfig(set: AppsSet & NetworkSet & EdgeSet): AppsConfig {
  const gatewayPort = set.FAIRLEAD_GATEWAY_PORT
  if (set.FAIRLEAD_DOMAIN !== undefined) {
    return { mode: 'hostnames', domain: set.FAIRLEAD_DOMAIN, scheme: 'https', publicPort: httpsPort(set), gatewayPort }
  }
  if (set.FAIRLEAD_APPS_DOMAIN !== undefined) {
    const scheme = set.FAIRLEAD_APPS_SCHEME ?? 'https'
    const publicPort = set.FAIRLEAD_APPS_PORT ?? (scheme === 'https' ? 443 : 80)
    return { mode: 'hostnames', domain: set.FAIRLEAD_APPS_DOMAIN, scheme, publicPort, gatewayPort }
  }
  const publicHost = set.FAIRLEAD_PUBLIC_HOST ?? set.FAIRLEAD_HOST
  if (publicHost === '0.0.0.0' || publicHost === '::') {
    throw configError([
      'FAIRLEAD_PUBLIC_HOST, FAIRLEAD_DOMAIN or FAIRLEAD_APPS_DOMAIN must be set when the server listens on every address, so that apps have addresses that others can use',
    ])
  }
  return { mode: 'ports', publicHost, ports: set.FAIRLEAD_APP_PORTS }
}

export interface AddressRange {
  /** The first address as a number. */
  readonly first: number
  /** The length of the network prefix in bits, 8 to 24. */
  readonly bits: number
}

const message = 'must be an IPv4 network with a prefix of 8 to 24 bits, such as 198.18.0.0/15'

/** The networks for tests between devices (RFC 2544). No route of a machine or of the internet leads there. */
const unused: AddressRange = { first: 198 * 2 ** 24 + 18 * 2 ** 16, bits: 15 }

/** A part of the private addresses of RFC 1918 in which neither Docker's default networks nor cloud networks begin. */
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

/** Returns the conflict between the two ranges, which are checked separately before; null when there is none. */
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
