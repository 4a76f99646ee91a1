import type { DnsRecord } from '../../../platform/dns/messages.ts'
import type { Resolution } from '../../../platform/dns/resolver.ts'

export interface CheckedDomain {
  /** In the stored form: lower case, A-labels; `*.example.com` for a wildcard. */
  readonly name: string
  /** The app's host name below the server's own domain, which CNAME records should point to. */
  readonly target: string
  /** The value that the TXT record `_fairlead-challenge.<name>` must have; null when no proof is needed. */
  readonly token: string | null
  /** True when a CNAME record to the target is as good a proof as the token. */
  readonly isAliasProof: boolean
  /** The host names of all apps of the account: the name may lead to any of them. */
  readonly ofAccount?: readonly string[]
  /** The name that `_acme-challenge.<name>` of a wildcard must point to; null without a certificate from here. */
  readonly challengeTarget: string | null
}

export interface CertificateAuthority {
  /** The names for the authority in CAA records (`caaIdentities` of its directory; RFC 8555, section 7.1.1). */
  readonly identities: readonly string[]
  /** The URL of our account at the authority (RFC 8657); null when there is no account yet. */
  readonly accountUri: string | null
}

export type ProbeResult =
  /** This server has answered. */
  | { readonly outcome: 'reached' }
  /** Another server has answered; header names are in lower case. */
  | { readonly outcome: 'other'; readonly status: number; readonly headers: Readonly<Record<string, string>> }
  | { readonly outcome: 'unreachable'; readonly reason: 'refused' | 'timeout' | 'failed' }

export interface AuthorityAnswer {
  readonly server: string
  readonly address: string
  /**
   * `answers`: the server has the zone. `refuses`: it says that it does not have the zone. `fails`: it has the zone but
   * cannot read it. `silent`: it gives no answer. `unknown`: it cannot be asked from here, or refers to a zone below.
   */
  readonly state: 'answers' | 'refuses' | 'fails' | 'silent' | 'unknown'
  readonly rcode: string | null
  readonly alias: string | null
  readonly addresses: readonly string[]
}

export interface ZoneFacts {
  readonly name: string
  readonly answers: readonly AuthorityAnswer[]
  /** The names of the servers without an address, and of the servers whose addresses are not public. */
  readonly unresolved: readonly string[]
  readonly private: readonly string[]
}

/** The addresses of this server, as its own names lead to them. */
export interface OwnFacts {
  readonly host: string
  readonly addresses: readonly string[]
  /** True when the recursive servers do not answer at all. */
  readonly isResolverSilent: boolean
}

/** The records that name the authorities that may issue (RFC 8659). */
export interface CaaFacts {
  /** The name at which the records were found, or could not be read. */
  readonly at: string
  readonly records: readonly DnsRecord[]
  readonly failure: string | null
  /** True when the records belong to another name that a CNAME record leads to. */
  readonly isElsewhere: boolean
}

export interface OwnershipFacts {
  readonly values: readonly string[]
  readonly failure: string | null
  readonly isElsewhere: boolean
}

export interface ProbeFacts {
  readonly address: string
  readonly result: ProbeResult
  /** The result for the server's own host at the same address; null when it was not probed. */
  readonly ofServer: ProbeResult | null
}

export interface CheckFacts {
  readonly domain: CheckedDomain
  /** The name that was looked up: the domain's name, or a name that its wildcard covers. */
  readonly host: string
  /** The registered part, such as `example.co.uk`; null below unknown suffixes. */
  readonly registrable: string | null
  readonly own: OwnFacts
  readonly ipv4: Resolution
  readonly ipv6: Resolution
  readonly registration: Resolution | null
  readonly zone: ZoneFacts | null
  /** The types of records beside a CNAME record of the same name. */
  readonly besideAlias: readonly string[]
  readonly probes: readonly ProbeFacts[]
  /** Null when no authority issues certificates here. */
  readonly authority: CertificateAuthority | null
  readonly caa: CaaFacts | null
  readonly ownership: OwnershipFacts | null
  /** The names that `_acme-challenge` of a wildcard points to; null when no certificate is obtained. */
  readonly challenge: { readonly targets: readonly string[]; readonly failure: string | null } | null
}

/** The name without `*.`. */
export const baseOf = (name: string): string => name.replace(/^\*\./, '')

export const isWildcard = (name: string): boolean => name.startsWith('*.')

export const ownershipName = (name: string): string => `_fairlead-challenge.${baseOf(name)}`
export const challengeName = (name: string): string => `_acme-challenge.${baseOf(name)}`

export const addressesIn = (records: readonly DnsRecord[]): string[] =>
  records.flatMap((each) => (each.type === 'A' || each.type === 'AAAA' ? [each.address] : []))

/** Returns the addresses that the recursive servers give for a name. */
export const foundAddresses = ({ ipv4, ipv6 }: Pick<CheckFacts, 'ipv4' | 'ipv6'>): string[] =>
  addressesIn([...ipv4.records, ...ipv6.records])
