import type { CertificateFailure } from '../../../contract/certificates.ts'

/**
 * The certificates that must wait after a failure: certificates with the same names, with the same registered domain,
 * or all certificates of the authority.
 */
export type PauseScope = 'names' | 'domain' | 'all'

export interface AttemptFacts {
  /** The shortest time to wait; 0 for no wait. */
  readonly retryAfterMs?: number
  readonly pauses?: PauseScope
  /** True when the next attempt resumes the order. */
  readonly keepsOrder?: boolean
  /** The message for tenants, when the usual message mentions internals of the server. */
  readonly toTenants?: string
  readonly resumeAt?: Date
}

/** A failed attempt, with a message for the owner of the certificate. */
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

/** The pause after an authority reports a limit without `Retry-After`. */
const usualPauseMs = 60 * 60_000

/**
 * Returns the failure of an attempt for its owner: the answer of the authority, and advice. An `AttemptError` is
 * returned unchanged.
 */
export function explain(error: unknown): AttemptError {
  if (error instanceof AttemptError) return error
  if (error instanceof AcmeError)
    return error.problem === null ? unanswered(error) : explainProblem(error, error.problem)
  return new AttemptError(
    'server_error',
    'The server itself failed; its log has the reason. It tries again automatically.',
    {},
    { cause: error },
  )
}

/**
 * Returns the reason why the authority could not confirm a name, from the problem of a challenge or its order. It never
 * makes other certificates wait, because the servers of a name's owner can provoke any such problem, including problems
 * that look like a fault of the authority.
 */
export const explainChallenge = (problem: AcmeProblem): AttemptError =>
  refused(new AcmeError(problem.detail, { problem }), problem)

function unanswered(error: AcmeError): AttemptError {
  const { status, retryAfterMs } = error
  const facts = { retryAfterMs, pauses: 'all', keepsOrder: true } as const
  const options = { cause: error }
  if (status === null) {
    const { cause } = error
    const code = (cause as NodeJS.ErrnoException | undefined)?.code ?? 'no answer'
    const hint = isTrustProblem(code)
      ? 'Its certificate is not trusted: set FAIRLEAD_ACME_CA to the file with the certificate of its authority.'
      : 'The server tries again automatically.'
    return new AttemptError(
      'authority_unreachable',
      `The certificate authority cannot be reached (${code}). ${hint}`,
      facts,
      options,
    )
  }
  if (status === 429) return rateLimited('too many requests.', { retryAfterMs, pauses: 'all' }, options)
  const message = `The certificate authority answered with ${status}. The server tries again automatically.`
  return new AttemptError('authority_error', message, facts, options)
}

const isTrustProblem = (code: string): boolean => /CERT|SELF_SIGNED|UNABLE_TO|ALTNAME/.test(code)

function rateLimited(
  said: string,
  facts: { readonly retryAfterMs: number; readonly pauses: PauseScope },
  options: ErrorOptions,
): AttemptError {
  const retryAfterMs = facts.retryAfterMs === 0 ? usualPauseMs : facts.retryAfterMs
  const message = `A limit of the certificate authority is reached: ${said} The server tries again when the authority allows it.`
  return new AttemptError('rate_limited', message, { ...facts, retryAfterMs }, options)
}

/** The types of RFC 8555, section 6.7, with their meaning for the owner of a name. */
const meanings: Readonly<Record<string, readonly [code: string, message: string]>> = {
  rejectedIdentifier: ['rejected_identifier', 'The certificate authority does not issue certificates for this name.'],
  unsupportedIdentifier: [
    'rejected_identifier',
    'The certificate authority does not issue certificates for names like this.',
  ],
  caa: ['caa', 'A CAA record of the name allows only other certificate authorities: change it, or remove it.'],
  dns: ['dns_problem', 'The certificate authority cannot resolve the name: check its DNS records, and DNSSEC.'],
  unauthorized: [
    'unauthorized',
    'The certificate authority got an answer from another server: the name leads elsewhere.',
  ],
  incorrectResponse: [
    'unauthorized',
    'The certificate authority got an answer from another server: the name leads elsewhere.',
  ],
  connection: [
    'connection_refused',
    'The certificate authority cannot connect to the name on port 80: check its DNS records, the firewall and the router.',
  ],
  tls: ['tls_problem', 'The certificate authority met another TLS server under the name: it leads elsewhere.'],
  accountDoesNotExist: ['account_problem', 'The certificate authority does not know the account of this server.'],
  externalAccountRequired: [
    'account_problem',
    'The certificate authority wants an account made by hand, which this server cannot have: set another FAIRLEAD_ACME_URL.',
  ],
  userActionRequired: ['account_problem', 'The certificate authority wants its new terms to be agreed to.'],
  invalidContact: ['account_problem', 'The certificate authority does not accept FAIRLEAD_ACME_EMAIL.'],
  unsupportedContact: ['account_problem', 'The certificate authority does not accept FAIRLEAD_ACME_EMAIL.'],
  badPublicKey: ['account_problem', 'The certificate authority does not accept a key of this server.'],
  badSignatureAlgorithm: ['account_problem', 'The certificate authority does not accept a key of this server.'],
  orderNotReady: [
    'authority_error',
    'The certificate authority has not finished the order. The server tries again automatically.',
  ],
  badCSR: ['server_error', 'The certificate authority did not understand the server.'],
  malformed: ['server_error', 'The certificate authority did not understand the server.'],
  badNonce: ['authority_error', 'The certificate authority refuses the nonces that it has issued itself.'],
}

const unknown = [
  'authority_error',
  'The certificate authority refused the request. The server tries again automatically.',
] as const

/** The type comes from the authority, so it may be any name. */
const meaningOf = (type: string) => (Object.hasOwn(meanings, type) ? meanings[type] : undefined) ?? unknown

function explainProblem(error: AcmeError, problem: AcmeProblem): AttemptError {
  return isAuthorityFault(error, problem) ? failed(error, problem) : refused(error, problem)
}

/** True for a fault of the authority itself. An overloaded authority may report it like a rate limit. */
const isAuthorityFault = ({ status }: AcmeError, { type, detail }: AcmeProblem): boolean =>
  type === 'serverInternal' || (status !== null && status >= 500) || /^service busy\b/i.test(detail)

function failed(error: AcmeError, { type, detail }: AcmeProblem): AttemptError {
  const { retryAfterMs } = error
  const [code, toTenants] = meaningOf(type)
  const facts = { retryAfterMs, pauses: 'all', keepsOrder: true, toTenants } as const
  return new AttemptError(code, `${toTenants} It said: ${quoted(detail)}`, facts, { cause: error })
}

function refused(error: AcmeError, { type, detail }: AcmeProblem): AttemptError {
  const { retryAfterMs } = error
  const options = { cause: error }
  if (type === 'rateLimited') {
    return rateLimited(quoted(detail), { retryAfterMs, pauses: scopeOfLimit(detail) }, options)
  }
  const [code, meaning] = meaningOf(type)
  return new AttemptError(code, `${meaning} It said: ${quoted(detail)}`, { retryAfterMs }, options)
}

const quoted = (detail: string): string => (detail === '' ? 'nothing more.' : `“${detail.replace(/\.$/, '')}”.`)

/** Boulder may prefix the request: `Error creating new order :: …`. */
const request = /^error [a-z ]+ :: /i

/** Limits for this server's account and address, and for requests (`Rate limit for '/acme' reached`). */
const ofAll = /^(too many (new )?(orders|registrations|requests)\b|rate limit for '\/)/i

/** `too many certificates (50) already issued for "example.com" …`; for identical names, no domain follows. */
const ofDomain = /^too many certificates (\(\d+\) )?already issued for:? "?[a-z0-9-]+(\.[a-z0-9-]+)+/i

/**
 * Returns the scope of a limit, from Boulder's wording (`ratelimits/limiter.go`). Only the beginning is checked,
 * because later parts quote names of tenants. An unknown text applies only to the requested names, because tenants
 * could otherwise make other tenants wait.
 */
function scopeOfLimit(detail: string): PauseScope {
  const said = detail.replace(request, '')
  if (ofAll.test(said)) return 'all'
  return ofDomain.test(said) ? 'domain' : 'names'
}

interface AcmeProblem {
  /** The last part of its type, such as `rateLimited`. */
  readonly type: string
  readonly detail: string
}

/** Thrown when an authority refuses a request or does not answer. */
export class AcmeError extends Error {
  override readonly name = 'AcmeError'
  /** The problem document of the answer; null when the answer is not one. */
  readonly problem: AcmeProblem | null
  /** The HTTP status of the answer; null without an answer. */
  readonly status: number | null
  /** The time that the authority asks to wait; 0 for no wait. */
  readonly retryAfterMs: number

  constructor(
    message: string,
    facts: { readonly problem?: AcmeProblem; readonly status?: number; readonly retryAfterMs?: number },
    options?: ErrorOptions,
  ) {
    super(message, options)
    this.problem = facts.problem ?? null
    this.status = facts.status ?? null
    this.retryAfterMs = facts.retryAfterMs ?? 0
  }
}

const namespace = 'urn:ietf:params:acme:error:'
const longestDetail = 400

/** Returns the problem in a document; `undefined` when it has none. With several identifiers, the first one counts. */
export function problemIn(document: unknown): AcmeProblem | undefined {
  if (typeof document !== 'object' || document === null) return undefined
  const { type, detail, subproblems } = document as Readonly<Record<string, unknown>>
  if (typeof type !== 'string' || !type.startsWith(namespace)) return undefined
  const found = { type: type.slice(namespace.length, namespace.length + 40), detail: plain(detail) }
  const [first] = Array.isArray(subproblems) ? subproblems : []
  // The first subproblem is more specific, such as a CAA record of one name: the whole problem is then `malformed` or
  // `compound`.
  return found.type === 'compound' || found.type === 'malformed' ? (problemIn(first) ?? found) : found
}

/** Returns an external text as one line for messages: cut, and without invisible characters. */
export function plain(text: unknown): string {
  if (typeof text !== 'string') return ''
  return text
    .replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    .trim()
    .slice(0, longestDetail)
}

/** Returns the wait in a `Retry-After` header in milliseconds (RFC 9110, section 10.2.3); 0 for none. */
export function retryAfterMs(header: unknown, now: Date): number {
  if (typeof header !== 'string' || header.trim() === '') return 0
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1000
  const at = Date.parse(header)
  return Number.isNaN(at) ? 0 : Math.max(0, at - now.getTime())
}
