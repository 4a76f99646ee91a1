/** The document in which an authority says what is wrong (RFC 8555, section 6.7). */
export interface AcmeProblem {
  /** The last part of its type, such as `rateLimited`. */
  readonly type: string
  readonly detail: string
}

/** Thrown when an authority refuses a request, or does not answer. */
export class AcmeError extends Error {
  override readonly name = 'AcmeError'
  /** Null when it did not answer as an authority does. */
  readonly problem: AcmeProblem | null
  /** The status of its answer; null without one. */
  readonly status: number | null
  /** The time for which it asks to wait; 0 for none. */
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

/** Returns the problem of a document; `undefined` for one that is none. Of several identifiers, that of the first one counts. */
export function problemIn(document: unknown): AcmeProblem | undefined {
  if (typeof document !== 'object' || document === null) return undefined
  const { type, detail, subproblems } = document as Readonly<Record<string, unknown>>
  if (typeof type !== 'string' || !type.startsWith(namespace)) return undefined
  const found = { type: type.slice(namespace.length, namespace.length + 40), detail: plain(detail) }
  const [first] = Array.isArray(subproblems) ? subproblems : []
  // Such as a CAA record of one of the names: the problem as a whole is then `malformed` or `compound`.
  return found.type === 'compound' || found.type === 'malformed' ? (problemIn(first) ?? found) : found
}

/** Returns a text that others wrote as one line for messages: cut, and without invisible characters. */
export function plain(text: unknown): string {
  if (typeof text !== 'string') return ''
  return text
    .replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    .trim()
    .slice(0, longestDetail)
}

/** Returns the milliseconds that a `Retry-After` asks for (RFC 9110, section 10.2.3); 0 for none. */
export function retryAfterMs(header: unknown, now: Date): number {
  if (typeof header !== 'string' || header.trim() === '') return 0
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1000
  const at = Date.parse(header)
  return Number.isNaN(at) ? 0 : Math.max(0, at - now.getTime())
}
