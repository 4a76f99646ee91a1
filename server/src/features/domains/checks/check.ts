import type { DomainProblem, DomainRecord } from '../tables.ts'
import type { CheckedDomain } from './facts.ts'
import { type GatherDependencies, gatherFacts } from './gather.ts'
import { findProblems, isAliasOfApp, isInTheWay, isProven } from './problems.ts'
import { recordsToSet } from './records.ts'

export type { CertificateAuthority, CheckedDomain, ProbeResult } from './facts.ts'
export type { Probe } from './gather.ts'

export interface DomainCheckResult {
  /** True when no problem is an error: visitors reach this server, and the authority can issue a certificate. */
  readonly ok: boolean
  /**
   * True when visitors of the name reach this server, even if no certificate can be obtained or ownership is not
   * proved.
   */
  readonly reaches: boolean
  /** True when the TXT record has the token. */
  readonly isProven: boolean
  /** True when a CNAME record of the name leads to the host name of the domain's own app. */
  readonly leadsToApp: boolean
  /** The problems, the most informative first. */
  readonly problems: readonly DomainProblem[]
  readonly records: readonly DomainRecord[]
}

/** Checks the DNS of a domain before an authority is asked for a certificate. Rejects only when the signal aborts. */
export type CheckDomain = (domain: CheckedDomain, signal: AbortSignal) => Promise<DomainCheckResult>

export function createDomainCheck(dependencies: GatherDependencies): CheckDomain {
  return async (domain, signal) => {
    const facts = await gatherFacts(dependencies, domain, signal)
    const problems = findProblems(facts)
    return {
      ok: problems.every(({ severity }) => severity !== 'error'),
      reaches: !problems.some(isInTheWay),
      isProven: isProven(facts),
      leadsToApp: isAliasOfApp(facts),
      problems: problems.map(({ code, message, severity }) => ({ code, message, severity })),
      records: recordsToSet(domain, facts.own.addresses),
    }
  }
}
