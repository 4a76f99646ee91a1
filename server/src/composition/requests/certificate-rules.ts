import { createAuthorityFacts } from '../../certificates/acme/authority-facts.ts'
import { challengeTarget } from '../../certificates/acme/dns-01.ts'
import type { Composition } from '../composition.ts'
import { type CertificateRules, noCertificates } from './domain-checks.ts'

/** Creates the rules that decide whether a certificate for a domain can be obtained. */
export function composeCertificateRules({
  config: { edge },
  state,
}: Pick<Composition, 'config' | 'state'>): CertificateRules {
  if (edge === null) return noCertificates
  return {
    authority: createAuthorityFacts(state.db, edge.acme),
    challengeTargetOf: (name) =>
      edge.dnsUpdates === null || !name.startsWith('*.') ? null : challengeTarget(name, edge.domain),
  }
}
