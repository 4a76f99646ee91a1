import { availableParallelism } from 'node:os'
import { z } from 'zod'
import { type EdgeSet, httpsPort } from './edge.ts'
import { configError } from './errors.ts'
import type { NetworkSet } from './network.ts'
import { domain, port, type Range, range } from './values.ts'

/** How apps are reached: each on a port of its own, or all on one listener by host name. */
export type AppsConfig =
  | { readonly mode: 'ports'; readonly publicHost: string; readonly ports: Range }
  | {
      readonly mode: 'hostnames'
      readonly domain: string
      readonly scheme: 'http' | 'https'
      /** The port in public addresses. */
      readonly publicPort: number
      /** The port that the gateway listens on. */
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
    // The apps, the builds and PostgreSQL need the other half.
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
