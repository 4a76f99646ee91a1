import { isIPv6 } from 'node:net'
import { registrableDomain } from '../names.ts'
import type { DomainRecord } from '../tables.ts'
import { type CheckedDomain, challengeName, isWildcard, ownershipName } from './facts.ts'

/**
 * True for a registered name itself, such as `example.co.uk`. It can have no CNAME record (RFC 1034, section 3.6.2).
 */
export const isApex = (name: string): boolean => registrableDomain(name) === name

/**
 * Returns the records that the owner of a domain has to set.
 *
 * @param addresses the public addresses of this server
 */
export function recordsToSet(domain: CheckedDomain, addresses: readonly string[]): DomainRecord[] {
  const { name, target, token, challengeTarget } = domain
  const traffic: DomainRecord[] =
    isApex(name) && addresses.length > 0
      ? addresses.map((value) => ({ type: isIPv6(value) ? 'AAAA' : 'A', name, value, purpose: 'traffic' }))
      : [{ type: 'CNAME', name, value: target, purpose: 'traffic' }]
  return [
    ...traffic,
    ...(token === null
      ? []
      : [{ type: 'TXT', name: ownershipName(name), value: token, purpose: 'ownership' } as const]),
    ...(challengeTarget === null || !isWildcard(name)
      ? []
      : [{ type: 'CNAME', name: challengeName(name), value: challengeTarget, purpose: 'certificate' } as const]),
  ]
}

/** Returns the end of a message: how to set the records that lead visitors here. */
export function howToSet(
  { name, target }: Pick<CheckedDomain, 'name' | 'target'>,
  addresses: readonly string[],
): string {
  const [ipv4, ipv6] = [addresses.filter((each) => !isIPv6(each)), addresses.filter(isIPv6)]
  const direct = [
    ...(ipv4.length > 0 ? [`A ${ipv4.join(', ')}`] : []),
    ...(ipv6.length > 0 ? [`AAAA ${ipv6.join(', ')}`] : []),
  ].join(' and ')
  const alias = `CNAME ${target}`
  if (isApex(name) && direct !== '') return `Set for ${name}: ${direct}.`
  return direct === '' ? `Set for ${name}: ${alias}.` : `Set for ${name}: ${alias} (or ${direct}).`
}
