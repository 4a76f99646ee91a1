import type { DnsRecord } from '../../platform/dns/messages.ts'
import type { Resolution } from '../../platform/dns/resolver.ts'

/** The domain to check. */
export interface CheckedDomain {
  /** As it is stored: lower case, A-labels; `*.example.com` for a wildcard. */
  readonly name: string
  /** The host name of the app below the server's own domain, to which CNAME records are to point. */
  readonly target: string
  /** The value that the TXT record `_fairlead-challenge.<name>` must have; null when nothing is to be proved. */
  readonly token: string | null
  /** True when a CNAME record that leads to the target proves as much as the token. */
  readonly isAliasProof: boolean
  /** The host names of all apps of the account, to which the name may lead: it chooses itself which of them has the name. */
  readonly ofAccount?: readonly string[]
  /** The name to which `_acme-challenge.<name>` of a wildcard must point; null when no certificate is obtained for it here. */
  readonly challengeTarget: string | null
}

/** The authority that is asked for certificates. */
export interface CertificateAuthority {
  /** The names by which CAA records allow it (`caaIdentities` of its ACME directory; RFC 8555, section 7.1.1). */
  readonly identities: readonly string[]
  /** The address of our account there (RFC 8657); null when there is none yet. */
  readonly accountUri: string | null
}

export type ProbeResult =
  /** This server has answered. */
  | { readonly outcome: 'reached' }
  /** Another server has answered; the names of headers are in lower case. */
  | { readonly outcome: 'other'; readonly status: number; readonly headers: Readonly<Record<string, string>> }
  | { readonly outcome: 'unreachable'; readonly reason: 'refused' | 'timeout' | 'failed' }

/** The answer of one authoritative server for a name. */
export interface AuthorityAnswer {
  readonly server: string
  readonly address: string
  /**
   * `answers`: it has the zone. `refuses`: it says that it has not. `fails`: it has the zone and cannot read it. `silent`: it
   * gives no answer. `unknown`: it cannot be asked from here, or leads to a zone below.
   */
  readonly state: 'answers' | 'refuses' | 'fails' | 'silent' | 'unknown'
  readonly rcode: string | null
  /** The target of the CNAME record. */
  readonly alias: string | null
  readonly addresses: readonly string[]
}

/** The authoritative servers of a name. */
export interface ZoneFacts {
  readonly name: string
  readonly answers: readonly AuthorityAnswer[]
  /** The names of those without an address, and of those with addresses that are not public. */
  readonly unresolved: readonly string[]
  readonly private: readonly string[]
}

/** The addresses of this server, as the names that it has itself lead to them. */
export interface OwnFacts {
  readonly host: string
  readonly addresses: readonly string[]
  /** True when the recursive servers do not answer at all. */
  readonly isResolverSilent: boolean
}

/** The records that say which authorities may issue (RFC 8659). */
export interface CaaFacts {
  /** The name at which they were found, or could not be read. */
  readonly at: string
  readonly records: readonly DnsRecord[]
  readonly failure: string | null
  /** True when the records are those of another name, to which a CNAME record leads. */
  readonly isElsewhere: boolean
}

export interface OwnershipFacts {
  readonly values: readonly string[]
  readonly failure: string | null
  /** True when the values are those of another name, to which a CNAME record leads. */
  readonly isElsewhere: boolean
}

export interface ProbeFacts {
  readonly address: string
  readonly result: ProbeResult
  /** The result for the server's own host at the same address; null when it was not needed. */
  readonly ofServer: ProbeResult | null
}

/** The answers that a check has gathered about a domain. */
export interface CheckFacts {
  readonly domain: CheckedDomain
  /** The name that was looked up: the domain's, or one that its wildcard covers. */
  readonly host: string
  /** The part that is registered, such as `example.co.uk`; null below unknown suffixes. */
  readonly registrable: string | null
  readonly own: OwnFacts
  readonly ipv4: Resolution
  readonly ipv6: Resolution
  /** The result for the registered part. */
  readonly registration: Resolution | null
  readonly zone: ZoneFacts | null
  /** Types of records beside a CNAME record of the same name. */
  readonly besideAlias: readonly string[]
  readonly probes: readonly ProbeFacts[]
  /** Null when no authority is asked. */
  readonly authority: CertificateAuthority | null
  readonly caa: CaaFacts | null
  /** The TXT records that prove whose the name is; null when nothing is to be proved. */
  readonly ownership: OwnershipFacts | null
  /** The names to which `_acme-challenge` of a wildcard points; null when no certificate is obtained. */
  readonly challenge: { readonly targets: readonly string[]; readonly failure: string | null } | null
}

/** The name without `*.`. */
export const baseOf = (name: string): string => name.replace(/^\*\./, '')

export const isWildcard = (name: string): boolean => name.startsWith('*.')

/** The names at which records are that prove something. */
export const ownershipName = (name: string): string => `_fairlead-challenge.${baseOf(name)}`
export const challengeName = (name: string): string => `_acme-challenge.${baseOf(name)}`

export const addressesIn = (records: readonly DnsRecord[]): string[] =>
  records.flatMap((each) => (each.type === 'A' || each.type === 'AAAA' ? [each.address] : []))

/** The addresses to which the recursive servers say that a name leads. */
export const foundAddresses = ({ ipv4, ipv6 }: Pick<CheckFacts, 'ipv4' | 'ipv6'>): string[] =>
  addressesIn([...ipv4.records, ...ipv6.records])
