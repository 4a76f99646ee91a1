import type { DnsRecord } from '../../../platform/dns/messages.ts'
import type { CertificateAuthority } from './facts.ts'

/** The reason why CAA records do not allow an authority to issue. */
export type CaaRefusal =
  /** The records name only other authorities, or none; `named` lists them. */
  | { readonly kind: 'other_authorities'; readonly isForWildcards: boolean; readonly named: readonly string[] }
  /** The records name the authority, but for another account (RFC 8657, section 3). */
  | { readonly kind: 'account'; readonly isForWildcards: boolean; readonly named: readonly string[] }
  /** The records name the authority, but for other methods of proof (RFC 8657, section 4). */
  | { readonly kind: 'method'; readonly isForWildcards: boolean; readonly named: readonly string[] }
  /** The records have an unknown property that must be understood (RFC 8659, section 4.1). */
  | { readonly kind: 'critical'; readonly isForWildcards: boolean; readonly named: readonly string[] }

/** The method that proves names to the authority (RFC 8555, section 8). */
export type ProofMethod = 'http-01' | 'dns-01'

type CaaRecord = Extract<DnsRecord, { readonly type: 'CAA' }>

/** `iodef` and the properties after it change nothing for web certificates. */
const knownTags = new Set(['issue', 'issuewild', 'iodef', 'issuemail', 'issuevmc', 'contactemail', 'contactphone'])

/**
 * Decides by the CAA records of a name whether an authority may issue for it (RFC 8659, sections 4.2 and 4.3). Returns
 * null when it may.
 *
 * @param records the relevant set: the records of the name, or else of the closest parent that has any
 */
export function caaRefusal(
  records: readonly DnsRecord[],
  { identities, accountUri }: CertificateAuthority,
  proof: { readonly isWildcard: boolean; readonly method: ProofMethod },
): CaaRefusal | null {
  const caa = records.filter((record): record is CaaRecord => record.type === 'CAA')
  const critical = caa.find(({ isCritical, tag }) => isCritical && !knownTags.has(tag))
  if (critical !== undefined) return { kind: 'critical', isForWildcards: false, named: [critical.tag] }
  const wild = proof.isWildcard ? caa.filter(({ tag }) => tag === 'issuewild') : []
  const isForWildcards = wild.length > 0
  const deciding = isForWildcards ? wild : caa.filter(({ tag }) => tag === 'issue')
  // An authority without an identity, such as a private authority, does not read these records.
  if (deciding.length === 0 || identities.length === 0) return null
  const issuers = deciding.map(({ value }) => parseIssuer(value))
  const ours = issuers.filter(({ name }) => identities.some((identity) => identity.toLowerCase() === name))
  if (ours.length === 0) {
    const named = [...new Set(issuers.flatMap(({ name }) => (name === '' ? [] : [name])))]
    return { kind: 'other_authorities', isForWildcards, named }
  }
  const ofAccount = ours.filter(({ accounts }) => isAccount(accounts, accountUri))
  if (ofAccount.length === 0) {
    return { kind: 'account', isForWildcards, named: ours.flatMap(({ accounts }) => accounts) }
  }
  const methods = ofAccount.map((issuer) => issuer.methods)
  if (methods.some((each) => each === null || each.includes(proof.method))) return null
  return { kind: 'method', isForWildcards, named: methods.flatMap((each) => each ?? []) }
}

/** A record with more than one account allows none (RFC 8657, section 3). Our own account may not be known yet. */
function isAccount(accounts: readonly string[], accountUri: string | null): boolean {
  if (accounts.length === 0) return true
  return accounts.length === 1 && (accountUri === null || accounts[0] === accountUri)
}

interface Issuer {
  /** Empty for nobody: then no authority may issue. */
  readonly name: string
  readonly accounts: readonly string[]
  /** The allowed methods; null for all. */
  readonly methods: readonly string[] | null
}

const nobody: Issuer = { name: '', accounts: [], methods: null }

/** Parses `example.net; accounturi=…; validationmethods=…` (RFC 8659, section 4.2). A malformed value allows nobody. */
function parseIssuer(value: string): Issuer {
  const [name = '', ...rest] = value.split(';').map((part) => part.trim())
  const parameters = rest.filter((part) => part !== '')
  if (!/^[a-z0-9.-]*$/i.test(name) || !parameters.every((each) => /^[a-z0-9-]+\s*=\s*[!-:<-~]*$/i.test(each))) {
    return nobody
  }
  const valuesOf = (tag: string): string[] =>
    parameters.flatMap((parameter) => {
      const at = parameter.indexOf('=')
      return parameter.slice(0, at).trim().toLowerCase() === tag ? [parameter.slice(at + 1).trim()] : []
    })
  const methods = valuesOf('validationmethods')
  return {
    name: name.toLowerCase().replace(/\.$/, ''),
    accounts: valuesOf('accounturi'),
    methods: methods.length === 0 ? null : methods.flatMap((each) => each.toLowerCase().split(',')),
  }
}
