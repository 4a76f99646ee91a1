import type { z } from 'zod'
import { type EdgeSet, edgeOrigin } from './edge.ts'
import { hostname, networks, origin, port, text } from './values.ts'

/** The origin that others reach the server by, such as `https://fairlead.example.com`, or only its host if not set. */
export type PublicAddress = { readonly origin: string } | { readonly host: string }

export const networkSettings = {
  FAIRLEAD_HOST: text.default('127.0.0.1'),
  FAIRLEAD_PORT: port.default(3000),
  FAIRLEAD_PUBLIC_URL: origin.optional(),
  FAIRLEAD_PUBLIC_HOST: hostname.optional(),
  FAIRLEAD_TRUSTED_PROXIES: networks.default([]),
}

export type NetworkSet = z.output<z.ZodObject<typeof networkSettings>>
/** The apps domain, which is public too. */
type AppsDomain = { readonly FAIRLEAD_APPS_DOMAIN?: string | undefined }

/** True when the server listens on loopback alone and nothing public is configured. */
export function isLocalMode(set: NetworkSet & AppsDomain & EdgeSet): boolean {
  return (
    isLoopback(set.FAIRLEAD_HOST) &&
    set.FAIRLEAD_PUBLIC_URL === undefined &&
    set.FAIRLEAD_PUBLIC_HOST === undefined &&
    set.FAIRLEAD_APPS_DOMAIN === undefined &&
    set.FAIRLEAD_DOMAIN === undefined &&
    set.FAIRLEAD_TRUSTED_PROXIES.length === 0
  )
}

export function publicAddress(set: NetworkSet & AppsDomain & EdgeSet): PublicAddress {
  const origin = edgeOrigin(set)
  if (origin !== null) return { origin }
  if (set.FAIRLEAD_PUBLIC_URL !== undefined) return { origin: set.FAIRLEAD_PUBLIC_URL }
  if (set.FAIRLEAD_PUBLIC_HOST !== undefined) return { host: set.FAIRLEAD_PUBLIC_HOST }
  const listensEverywhere = set.FAIRLEAD_HOST === '0.0.0.0' || set.FAIRLEAD_HOST === '::'
  return { host: (listensEverywhere ? set.FAIRLEAD_APPS_DOMAIN : undefined) ?? set.FAIRLEAD_HOST }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}
