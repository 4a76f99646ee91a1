import type { Resolution } from '../../platform/dns/resolve.ts'
import type { CheckFacts } from './facts.ts'
import { type CheckProblem, error, warning } from './problem.ts'
import { howToSet, isApex } from './records.ts'
import { isFoundRight } from './verdict.ts'
import { listed, readable } from './words.ts'
import { failureProblem } from './zone-problems.ts'

/** Finds why a name has no address at all. */
export function lookupProblem(facts: CheckFacts): CheckProblem {
  const result = mostTelling(facts.ipv4, facts.ipv6)
  const { domain, own, host } = facts
  const { name } = domain
  const target = result.names[result.names.length - 1] ?? host
  const path = listed(result.names.slice(0, 4).map(readable))
  const set = howToSet(domain, own.addresses)
  const isAlias = result.names.length > 1
  switch (result.outcome) {
    case 'failed':
      return failureProblem(facts, target, result.failure ?? 'SERVFAIL')
    case 'cname_loop':
      return error('cname_loop', `The CNAME records of ${name} lead in a circle (${path}). ${set}`)
    case 'cname_too_long':
      return error(
        'cname_too_long',
        `${name} leads through ${result.names.length - 1} CNAME records (${path} …), more than resolvers follow. ${set}`,
      )
    case 'no_name':
      return isAlias ? danglingProblem(facts, target) : missingProblem(facts)
    default:
      if (isAlias && isOurs(facts, target)) return serverProblem(facts, target)
      return error(
        'no_address',
        isAlias
          ? `${name} is a CNAME of ${readable(target)}, which has no address. ${set}`
          : `${name} has no A, AAAA or CNAME record. ${set}`,
      )
  }
}

const ranks: readonly Resolution['outcome'][] = [
  'failed',
  'cname_loop',
  'cname_too_long',
  'no_name',
  'no_data',
  'found',
]

const mostTelling = (one: Resolution, other: Resolution): Resolution =>
  ranks.indexOf(other.outcome) < ranks.indexOf(one.outcome) ? other : one

const isOurs = ({ domain, own }: CheckFacts, name: string): boolean => name === domain.target || name === own.host

function danglingProblem(facts: CheckFacts, target: string): CheckProblem {
  const { domain, own } = facts
  if (isOurs(facts, target)) return serverProblem(facts, target)
  const set = howToSet(domain, own.addresses)
  return error(
    'cname_dangling',
    `${domain.name} is a CNAME of ${readable(target)}, and that name does not exist. ${set}`,
  )
}

/** The names of this server itself are its operator's to set. */
const serverProblem = ({ domain }: CheckFacts, name: string): CheckProblem =>
  error(
    'server_unresolved',
    `${domain.name} is set as it should be, but ${name} has no address. The operator of this server must set one.`,
  )

function missingProblem({ domain, registrable, registration, own }: CheckFacts): CheckProblem {
  const { name } = domain
  if (registration?.outcome === 'no_name') {
    const message = `${registrable} is not registered, or its registrar has not delegated it: no name server knows it.`
    return error('domain_unregistered', `${message} Register it, or set its name servers at the registrar.`)
  }
  return error('name_missing', `${name} does not exist in DNS. ${howToSet(domain, own.addresses)}`)
}

/** Finds a CNAME record where there must be none. */
export function conflictProblems(facts: CheckFacts): CheckProblem[] {
  const { domain, host, zone, besideAlias, ipv4, ipv6, own } = facts
  const isAlias = ipv4.names.length > 1 || ipv6.names.length > 1
  const isZoneApex = zone?.name === host || isApex(host)
  if (!isAlias || (!isZoneApex && besideAlias.length === 0)) return []
  const beside = besideAlias.length > 0 ? besideAlias : ['SOA', 'NS']
  const message =
    `${domain.name} has a CNAME record beside its ${listed(beside)} records, which DNS does not allow: resolvers take one or the other. ` +
    `Remove the CNAME record, or the others. ${howToSet(domain, own.addresses)}`
  return [isFoundRight(facts) ? warning('cname_conflict', message) : error('cname_conflict', message)]
}
