import type { X509Certificate } from 'node:crypto'

const label = '[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?'
const dnsName = new RegExp(`^(\\*\\.)?(${label}\\.)*${label}$`)

/**
 * Returns the DNS names of a certificate (RFC 6125: those of its extension `subjectAltName` alone) in lower case. Addresses,
 * and names that no host can have, are left out.
 */
export function namesOf({ subjectAltName = '' }: X509Certificate): string[] {
  const names = subjectAltName
    .split(', ')
    .filter((entry) => entry.startsWith('DNS:'))
    .map((entry) => entry.slice('DNS:'.length).toLowerCase())
  return [...new Set(names.filter((name) => name.length <= 253 && dnsName.test(name)))]
}

/** True when a certificate for `names` is good for `name`. A wildcard covers exactly one label (RFC 6125, section 6.4.3). */
export function covers(names: readonly string[], name: string): boolean {
  return names.includes(name) || (!name.startsWith('*.') && names.includes(wildcardAbove(name)))
}

/** Returns the wildcard that covers a name: `*.example.com` for `www.example.com`. */
export const wildcardAbove = (name: string): string => `*${name.slice(name.indexOf('.'))}`
