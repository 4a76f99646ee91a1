import { getDomain } from 'tldts'

/** Returns the domain that authorities count a name for: the one directly below a public suffix (publicsuffix.org). */
export function registeredDomain(name: string): string {
  const host = name.replace(/^\*\./, '')
  return getDomain(host, { allowPrivateDomains: true, validateHostname: false }) ?? host
}
