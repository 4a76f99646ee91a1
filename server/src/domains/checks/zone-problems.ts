import type { AuthorityAnswer, CheckFacts } from './facts.ts'
import { type CheckProblem, error, warning } from './problem.ts'
import { howToSet } from './records.ts'
import type { Verdict } from './verdict.ts'
import { lasting, listed, readable, shown } from './words.ts'

/** Finds name servers that fail although others answer, and those that do not say the same. */
export function zoneProblems(facts: CheckFacts, { right, wrong, disagree }: Verdict): CheckProblem[] {
  const { zone, domain, own, host } = facts
  if (zone === null) return []
  const answering = zone.answers.filter(({ state }) => state === 'answers')
  const silent = zone.answers.filter(({ state }) => state === 'silent')
  const lame = zone.answers.filter(isLame)
  // Without one that answers, this server may not be allowed to ask any.
  if (answering.length === 0) return []
  const problems: CheckProblem[] = []
  if (disagree) {
    problems.push(
      error(
        'name_servers_disagree',
        `The name servers of ${zone.name} do not agree: ${listed(right.map(({ server }) => readable(server)))} lead ${host} here, ` +
          `${listed(wrong.map((each) => `${readable(each.server)} to ${placeOf(each)}`))}. Wait until all of them have the change, or ` +
          `correct those. ${howToSet(domain, own.addresses)}`,
      ),
    )
  }
  if (silent.length > 0)
    problems.push(warning('name_servers_silent', silentMessage(zone.name, silent, 'Some visitors wait long.')))
  if (lame.length > 0) problems.push(warning('lame_delegation', lameMessage(zone.name, lame)))
  return problems
}

const isLame = ({ state }: AuthorityAnswer): boolean => state === 'refuses' || state === 'fails'

function placeOf({ alias, addresses, rcode }: AuthorityAnswer): string {
  if (alias !== null) return readable(alias)
  return addresses.length > 0 ? listed(addresses.map(shown)) : `nothing (${rcode})`
}

const silentMessage = (zone: string, silent: readonly AuthorityAnswer[], effect: string): string =>
  `The name servers ${listed(silent.map(serverName))} of ${zone} do not answer. ${effect} Start them, or remove them at the ` +
  `registrar of ${zone}.`

const lameMessage = (zone: string, lame: readonly AuthorityAnswer[]): string =>
  `The name servers ${listed(lame.map((each) => `${serverName(each)} (${each.rcode === 'NOERROR' ? 'no authority' : each.rcode})`))} ` +
  `are said to have ${zone}, but do not. Add the zone there, or correct the name servers at the registrar of ${zone}.`

const serverName = ({ server, address }: AuthorityAnswer): string => `${readable(server)} (${shown(address)})`

/** Explains why the recursive servers failed, by the state of the name servers. */
export function failureProblem(facts: CheckFacts, name: string, failure: string): CheckProblem {
  const { zone, own } = facts
  const wording = failure === 'timeout' || failure === 'unreachable' ? 'gave no answer' : `answered ${failure}`
  const other = error(
    'server_failure',
    `The records of ${readable(name)} cannot be read: the DNS server ${wording}. Check the zone at your DNS provider, and try again.`,
  )
  if (own.isResolverSilent) {
    const message =
      'The DNS servers of this machine do not answer, so nothing can be said. Its operator must correct FAIRLEAD_DNS_SERVERS.'
    return error('resolver_unreachable', message)
  }
  if (failure === 'dnssec') {
    const advice = 'Sign the zone anew, or remove the DS record at the registrar until that is done.'
    return error(
      'dnssec_broken',
      `The DNSSEC signatures of ${readable(name)} are not valid, so resolvers refuse its records. ${advice}`,
    )
  }
  // The zone that is known is that of the domain, and not that of the target of a CNAME record.
  if (zone === null || name !== facts.host) return other
  return delegationProblem(zone) ?? other
}

function delegationProblem(zone: NonNullable<CheckFacts['zone']>): CheckProblem | undefined {
  const { name, answers, unresolved } = zone
  if (answers.some(({ state }) => state === 'answers')) return undefined
  const lame = answers.filter(isLame)
  if (lame.length > 0) return error('lame_delegation', lameMessage(name, lame))
  const silent = answers.filter(({ state }) => state === 'silent')
  if (silent.length > 0)
    return error('name_servers_silent', silentMessage(name, silent, 'Nobody can read its records.'))
  if (zone.private.length > 0) {
    const message = `The name servers ${listed(zone.private.map(readable))} of ${name} have no public addresses, so nobody can ask them.`
    return error('name_servers_private', `${message} Set public name servers at the registrar.`)
  }
  if (unresolved.length === 0) return undefined
  const message = `The name servers ${listed(unresolved.map(readable))} of ${name} have no addresses, so nobody can ask them.`
  return error('name_servers_unresolved', `${message} Correct them at the registrar of ${name}.`)
}

/** The authoritative servers are right; only the recursive one has an older answer. */
export function staleProblem({ host, ipv4, ipv6, zone }: CheckFacts): CheckProblem {
  const seconds = Math.max(ipv4.ttl, ipv6.ttl)
  return warning(
    'resolver_stale',
    `The records of ${host} are right at the name servers of ${zone?.name ?? host}, but the DNS server asked still has an older answer ` +
      `for up to ${lasting(seconds)}. Some visitors get the old one until then; there is nothing to do but wait.`,
  )
}
