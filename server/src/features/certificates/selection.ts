import type { CertificateSource } from '../../contract/certificates.ts'
import { covers, wildcardAbove } from './pem.ts'

/** A served name with its owner. The server's own names belong to the operator's account, and to no app. */
export interface ServedName {
  readonly name: string
  readonly accountId: string
  readonly projectId: string | null
  readonly appId: string | null
  /** The domain that the app's owner has added; null for the app's own host name. */
  readonly domainId: string | null
}

export interface Candidate {
  readonly id: string
  readonly names: readonly string[]
  readonly source: CertificateSource
  readonly accountId: string
  readonly projectId: string | null
  readonly appId: string | null
  readonly domainId: string | null
  readonly notBefore: Date
  readonly expiresAt: Date
  readonly isBeingRevoked: boolean
}

/**
 * Returns the id of the certificate to show for each name; names without a certificate are left out. A valid uploaded
 * certificate wins; among several, the most recently issued one.
 *
 * @param operatorId the account whose uploaded certificates are shown for the server's own names and for names of apps
 * below its domain
 */
export function select(
  candidates: readonly Candidate[],
  served: readonly ServedName[],
  operatorId: string,
  now: Date,
): ReadonlyMap<string, string> {
  const valid = candidates
    .filter(({ notBefore, expiresAt }) => notBefore <= now && expiresAt > now)
    .toSorted(byPreference)
  const byName = Map.groupBy(
    valid.flatMap((each) => each.names.map((name) => ({ name, each }))),
    ({ name }) => name,
  )
  const chosen = new Map<string, string>()
  for (const name of served) {
    const possible = [...(byName.get(name.name) ?? []), ...(byName.get(wildcardAbove(name.name)) ?? [])]
    const fitting = possible.map(({ each }) => each).filter((each) => isFor(each, name, operatorId))
    const [best] = fitting.toSorted(byPreference)
    if (best !== undefined) chosen.set(name.name, best.id)
  }
  return chosen
}

function byPreference(one: Candidate, other: Candidate): number {
  return (
    Number(other.source === 'uploaded') - Number(one.source === 'uploaded') ||
    Number(one.isBeingRevoked) - Number(other.isBeingRevoked) ||
    other.notBefore.getTime() - one.notBefore.getTime() ||
    other.expiresAt.getTime() - one.expiresAt.getTime() ||
    (one.id < other.id ? 1 : -1)
  )
}

/** True when a certificate may be shown for a name. An account's names never show a certificate of another account. */
function isFor(each: Candidate, served: ServedName, operatorId: string): boolean {
  if (each.source === 'automatic') {
    const isOwners = served.domainId === null ? each.appId === served.appId : true
    return isOwners && each.domainId === served.domainId && each.names.includes(served.name)
  }
  if (!covers(each.names, served.name)) return false
  if (served.domainId === null && each.accountId !== operatorId) return false
  if (served.domainId !== null && each.accountId !== served.accountId) return false
  return each.projectId === null || each.projectId === served.projectId
}

export interface OwnNames {
  readonly domain: string
  readonly dashboardHost: string
  /** True when the server can change DNS, and so can obtain wildcards. */
  readonly hasDnsUpdates: boolean
}

export interface WildcardState {
  readonly isValid: boolean
  readonly failures: number
}

/** After this many failures, names below the server's domain get separate certificates. */
const failuresToFallBack = 2

/**
 * True when a name directly below the server's domain needs no separate certificate, because the wildcard covers it or
 * soon will.
 *
 * @param wildcard `undefined` while it was never requested
 */
export function hasWildcard(name: string, own: OwnNames, wildcard: WildcardState | undefined): boolean {
  if (!own.hasDnsUpdates || wildcardAbove(name) !== `*.${own.domain}` || name.startsWith('*.')) return false
  return wildcard === undefined || wildcard.isValid || wildcard.failures < failuresToFallBack
}

/**
 * Returns the server's own names that need a certificate: the wildcard if it can be obtained, and the dashboard's name
 * unless the wildcard covers it.
 *
 * @param accountId the operator's account
 */
export function ownCertificates(own: OwnNames, wildcard: WildcardState | undefined, accountId: string): ServedName[] {
  const names = [
    ...(own.hasDnsUpdates ? [`*.${own.domain}`] : []),
    ...(hasWildcard(own.dashboardHost, own, wildcard) ? [] : [own.dashboardHost]),
  ]
  return names.map((name) => ownName(name, accountId))
}

/** Returns the names of the server itself, which may show uploaded certificates. */
export const ownNames = ({ domain, dashboardHost }: OwnNames, accountId: string): ServedName[] =>
  [`*.${domain}`, dashboardHost].map((name) => ownName(name, accountId))

const ownName = (name: string, accountId: string): ServedName => ({
  name,
  accountId,
  projectId: null,
  appId: null,
  domainId: null,
})
