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
  /** True when visitors reach this server, even without a possible certificate or a proof of ownership. */
  readonly reaches: boolean
  readonly isProven: boolean
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
