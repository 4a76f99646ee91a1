import { type AuthorityAnswer, type CheckFacts, foundAddresses } from './facts.ts'

/** The answers of the authoritative servers, by what they say about the way to this server. */
export interface Verdict {
  /** Those that lead here. */
  readonly right: readonly AuthorityAnswer[]
  readonly wrong: readonly AuthorityAnswer[]
  /** True when the servers have what is right, and only the recursive server still has something else. */
  readonly isStale: boolean
  /** True when visitors get one thing or another. */
  readonly disagree: boolean
}

const aliasesOf = ({ ipv4, ipv6 }: CheckFacts): string[] => [...ipv4.names.slice(1), ...ipv6.names.slice(1)]

/** Tells if a CNAME record of a name leads to its own app. */
export const isAliasOfApp = (facts: CheckFacts): boolean =>
  facts.domain.target !== '' && aliasesOf(facts).includes(facts.domain.target)

/**
 * Returns the host name of an app to which a CNAME record leads, and which is none of the account's: its owner has the name, wherever the
 * operator's own records lead from there.
 */
export function otherAppOf(facts: CheckFacts): string | undefined {
  const { domain, own } = facts
  const suffix = domain.target.slice(domain.target.indexOf('.'))
  if (suffix.length < 2) return undefined
  const isOfApp = (name: string) => name.endsWith(suffix) && name !== own.host
  const named = [facts.ipv4, facts.ipv6].flatMap(({ names }) => names.slice(1).find(isOfApp) ?? [])
  return named.find((name) => name !== domain.target && domain.ofAccount?.includes(name) !== true)
}

/** Tells if a name leads here because a CNAME record says so: the addresses behind it are this server's to set. */
export function isAliasOfUs(facts: CheckFacts): boolean {
  const names = aliasesOf(facts)
  return otherAppOf(facts) === undefined && (names.includes(facts.domain.target) || names.includes(facts.own.host))
}

/** Tells if the recursive servers lead here, and nowhere else. */
export function isFoundRight(facts: CheckFacts): boolean {
  const found = foundAddresses(facts)
  if (found.length === 0 || otherAppOf(facts) !== undefined) return false
  return isAliasOfUs(facts) || found.every((address) => isReached(facts, address))
}

/** Tells if an address is this server's, or that of a proxy before it. */
export const isReached = ({ own, probes }: CheckFacts, address: string): boolean =>
  own.addresses.includes(address) ||
  probes.some((each) => each.address === address && each.result.outcome === 'reached')

export function judge(facts: CheckFacts): Verdict {
  const answering = (facts.zone?.answers ?? []).filter(({ state }) => state === 'answers')
  const judged = answering.map((answer) => ({ answer, isRight: isRight(facts, answer) }))
  const right = judged.filter((each) => each.isRight === true).map(({ answer }) => answer)
  const wrong = judged.filter((each) => each.isRight === false).map(({ answer }) => answer)
  return {
    right,
    wrong,
    isStale: right.length > 0 && right.length === judged.length && isOld(facts),
    disagree: right.length > 0 && wrong.length > 0,
  }
}

/** A recursive server that failed has no old answer; it may have found signatures wrong, which the others do not check. */
const isOld = (facts: CheckFacts): boolean =>
  ![facts.ipv4, facts.ipv6].some(({ outcome }) => outcome === 'failed') && !isFoundRight(facts) && !isAliasOfUs(facts)

/** Null when it cannot be told without following a CNAME record further. */
function isRight(facts: CheckFacts, { alias, addresses }: AuthorityAnswer): boolean | null {
  if (alias !== null) {
    if (alias === facts.domain.target || alias === facts.own.host) return true
    // The recursive server has followed the same record.
    const isFollowed = facts.ipv4.names[1] === alias || facts.ipv6.names[1] === alias
    return isFollowed ? isFoundRight(facts) : null
  }
  return addresses.length > 0 && addresses.every((address) => isReached(facts, address))
}
