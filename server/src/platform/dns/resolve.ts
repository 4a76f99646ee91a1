import { DnsError } from './exchange.ts'
import type { DnsAnswer, DnsQuestion, DnsRecord, DnsType } from './message.ts'

/** Asks the recursive servers one question. Rejects with `DnsError` when none of them answers. */
export type AskRecursively = (question: DnsQuestion, signal: AbortSignal) => Promise<DnsAnswer>

/** The result for a name and a type, with the CNAME records followed. */
export interface Resolution {
  /**
   * `found`: there are records. `no_data`: the last name exists, without records of the type. `no_name`: the last name does
   * not exist. `failed`: see `failure`.
   */
  readonly outcome: 'found' | 'no_data' | 'no_name' | 'cname_loop' | 'cname_too_long' | 'failed'
  /** The name that was asked for, then the targets of CNAME records, in order. */
  readonly names: readonly string[]
  /** The records of the last name and of the type. */
  readonly records: readonly DnsRecord[]
  /** The seconds for which the recursive server may still keep what it has about the first name. */
  readonly ttl: number
  /**
   * The reason of `failed`: `timeout`, `unreachable` or `malformed` when no server gave an answer; `dnssec` when there are
   * records, but their signatures are not right; otherwise the rcode, such as `SERVFAIL`.
   */
  readonly failure: string | null
}

/** As many as the resolvers of certificate authorities follow at least. */
const mostNames = 10

/** Resolves a name. Rejects only when the signal aborts. */
export async function resolveName(
  ask: AskRecursively,
  name: string,
  type: DnsType,
  signal: AbortSignal,
): Promise<Resolution> {
  const names = [name.toLowerCase()]
  let first: number | undefined
  const result = (outcome: Resolution['outcome'], more: Partial<Resolution> = {}): Resolution => ({
    ...{ records: [], failure: null, ...more, outcome, names },
    ttl: first ?? more.ttl ?? 0,
  })
  for (;;) {
    const asked = await askSafely(ask, { name: last(names), type, recursion: true }, signal)
    if (typeof asked === 'string') return result('failed', { failure: asked })
    const before = names.length
    const end = followAliases(asked.answers, names, type)
    first ??= end.ttl
    if (end.trouble !== null) return result(end.trouble)
    if (!['NOERROR', 'NXDOMAIN'].includes(asked.rcode)) {
      const failure = await explainFailure(ask, { name: last(names), type }, asked.rcode, signal)
      if (typeof failure === 'string') return result('failed', { failure })
      names.push(...failure.names)
      return result(failure.outcome, { ttl: failure.ttl })
    }
    const records = asked.answers.filter((each) => each.name === last(names) && each.type === type)
    if (records.length > 0) return result('found', { records, ttl: Math.min(...records.map((each) => each.ttl)) })
    if (asked.rcode === 'NXDOMAIN') return result('no_name', { ttl: negativeTtl(asked) })
    // The server has followed an alias no further: it may give the rest when asked.
    if (names.length === before || hasSoa(asked)) return result('no_data', { ttl: negativeTtl(asked) })
  }
}

const last = (names: readonly string[]): string => names[names.length - 1] ?? ''

const hasSoa = ({ authorities }: DnsAnswer): boolean => authorities.some(({ type }) => type === 'SOA')

function negativeTtl({ authorities }: DnsAnswer): number {
  const soa = authorities.find((each) => each.type === 'SOA')
  return soa?.type === 'SOA' ? soa.negativeTtl : 0
}

type Trouble = 'cname_loop' | 'cname_too_long'

/** Adds the targets of the CNAME records in an answer that begin at the last name. Returns the seconds of the first one. */
function followAliases(
  answers: readonly DnsRecord[],
  names: string[],
  type: DnsType,
): { readonly trouble: Trouble | null; readonly ttl: number | undefined } {
  let ttl: number | undefined
  while (type !== 'CNAME') {
    const alias = answers.find((each) => each.type === 'CNAME' && each.name === last(names))
    if (alias?.type !== 'CNAME') break
    ttl ??= alias.ttl
    const isLoop = names.includes(alias.target)
    names.push(alias.target)
    if (isLoop) return { trouble: 'cname_loop', ttl }
    if (names.length > mostNames) return { trouble: 'cname_too_long', ttl }
  }
  return { trouble: null, ttl }
}

/** Returns the answer, or why there is none. */
async function askSafely(ask: AskRecursively, question: DnsQuestion, signal: AbortSignal): Promise<DnsAnswer | string> {
  try {
    return await ask(question, signal)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof DnsError) return error.code
    throw error
  }
}

/**
 * Finds why a recursive server failed: signatures that are not right (it answers when it is told not to check them; RFC
 * 4035, section 3.2.2), or CNAME records without an end, for which many servers give no other answer.
 */
async function explainFailure(
  ask: AskRecursively,
  { name, type }: Pick<DnsQuestion, 'name' | 'type'>,
  rcode: string,
  signal: AbortSignal,
): Promise<string | { readonly outcome: Trouble; readonly names: readonly string[]; readonly ttl: number }> {
  if (rcode !== 'SERVFAIL') return rcode
  const unchecked = await askSafely(ask, { name, type, recursion: true, checkingDisabled: true }, signal)
  if (typeof unchecked !== 'string' && ['NOERROR', 'NXDOMAIN'].includes(unchecked.rcode)) return 'dnssec'
  const names = [name]
  let first: number | undefined
  for (;;) {
    const alias = await askSafely(ask, { name: last(names), type: 'CNAME', recursion: true }, signal)
    if (typeof alias === 'string') return rcode
    const { trouble, ttl } = followAliases(alias.answers.slice(0, 1), names, 'A')
    first ??= ttl
    if (trouble !== null) return { outcome: trouble, names: names.slice(1), ttl: first ?? 0 }
    if (ttl === undefined) return rcode
  }
}
