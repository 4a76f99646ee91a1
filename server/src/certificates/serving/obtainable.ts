import { wildcardAbove } from '../pem/names.ts'
import type { ServedName } from './selection.ts'

/** The server's own names, and the way in which they get certificates. */
export interface OwnNames {
  /** Apps have names directly below it. */
  readonly domain: string
  readonly dashboardHost: string
  /** True when the server can change DNS, and so obtain wildcards. */
  readonly hasDnsUpdates: boolean
}

/** The state of the certificate for all names of apps. */
export interface WildcardState {
  readonly isValid: boolean
  /** The attempts in a row that failed. */
  readonly failures: number
}

/** A wildcard that has failed so often is not waited for: names below it get certificates of their own meanwhile. */
const failuresToFallBack = 2

/**
 * True when a name directly below the server's domain needs no certificate of its own, because the wildcard has it or will have it
 * soon.
 *
 * @param wildcard `undefined` while nobody has asked for it
 */
export function hasWildcard(name: string, own: OwnNames, wildcard: WildcardState | undefined): boolean {
  if (!own.hasDnsUpdates || wildcardAbove(name) !== `*.${own.domain}` || name.startsWith('*.')) return false
  return wildcard === undefined || wildcard.isValid || wildcard.failures < failuresToFallBack
}

/**
 * Returns the server's own names that need a certificate: the wildcard where it can be had, and the dashboard's unless that has it.
 *
 * @param accountId of the operator
 */
export function ownCertificates(own: OwnNames, wildcard: WildcardState | undefined, accountId: string): ServedName[] {
  const names = [
    ...(own.hasDnsUpdates ? [`*.${own.domain}`] : []),
    ...(hasWildcard(own.dashboardHost, own, wildcard) ? [] : [own.dashboardHost]),
  ]
  return names.map((name) => ownName(name, accountId))
}

/** Returns the names of the server itself, of which an uploaded certificate may be shown. */
export const ownNames = ({ domain, dashboardHost }: OwnNames, accountId: string): ServedName[] =>
  [`*.${domain}`, dashboardHost].map((name) => ownName(name, accountId))

const ownName = (name: string, accountId: string): ServedName => ({
  name,
  accountId,
  projectId: null,
  appId: null,
  domainId: null,
})
