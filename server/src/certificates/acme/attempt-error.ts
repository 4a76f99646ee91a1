import type { CertificateFailure } from '../../contract/resources/hosts/certificates.ts'

/** The certificates that must wait when one has failed: those of the same names, of the same registered domain, or all of the authority. */
export type PauseScope = 'names' | 'domain' | 'all'

export interface AttemptFacts {
  /** The time to wait at least; 0 for none. */
  readonly retryAfterMs?: number
  readonly pauses?: PauseScope
  /** True when the next attempt resumes the order. */
  readonly keepsOrder?: boolean
  /** The message for owners of names who are not the operator, when the usual one tells of the server's own parts. */
  readonly toTenants?: string
  /** The time of the next attempt, in place of the usual one. */
  readonly resumeAt?: Date
}

/** An attempt to obtain a certificate that has failed, in the words that its owner reads. */
export class AttemptError extends Error {
  override readonly name = 'AttemptError'
  readonly failure: CertificateFailure
  readonly facts: AttemptFacts

  constructor(code: string, message: string, facts: AttemptFacts = {}, options?: ErrorOptions) {
    super(`${code}: ${message}`, options)
    this.failure = { code, message }
    this.facts = facts
  }
}
