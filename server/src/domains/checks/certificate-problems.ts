import { type CaaRefusal, caaRefusal } from './caa.ts'
import { baseOf, type CaaFacts, type CheckFacts, challengeName, foundAddresses, isWildcard } from './facts.ts'
import { type CheckProblem, error } from './problem.ts'
import { listed, readable } from './words.ts'

/** Finds what keeps the authority from issuing a certificate. */
export function certificateProblems(facts: CheckFacts): CheckProblem[] {
  return [...caaProblems(facts), ...challengeProblems(facts)]
}

function caaProblems(facts: CheckFacts): CheckProblem[] {
  const { caa, authority, domain } = facts
  if (caa === null || authority === null) return []
  const wildcard = isWildcard(domain.name)
  const [identity = ''] = authority.identities
  if (caa.failure !== null) {
    // Servers that give no records at all are told of already.
    if (foundAddresses(facts).length === 0) return []
    const reason = caa.failure === 'timeout' ? 'the name servers give no answer' : `the answer is ${caa.failure}`
    const message = `The CAA records of ${caa.at} cannot be read (${reason}), and the authority issues nothing then.`
    return [
      error(
        'caa_unreadable',
        `${message} Let the name servers answer queries for CAA, with no records or with ${identity}.`,
      ),
    ]
  }
  const refusal = caaRefusal(caa.records, authority, { isWildcard: wildcard, method: wildcard ? 'dns-01' : 'http-01' })
  if (refusal === null) return []
  const code = refusal.isForWildcards ? 'caa_forbids_wildcards' : 'caa_forbids'
  return [error(code, caaMessage(facts, caa, identity, refusal))]
}

function caaMessage(
  { domain, authority }: CheckFacts,
  { at, isElsewhere }: CaaFacts,
  identity: string,
  refusal: CaaRefusal,
): string {
  const tag = refusal.isForWildcards ? 'issuewild' : 'issue'
  const named = listed(refusal.named.map(readable))
  const add = `Add the CAA record 0 ${tag} "${identity}" at ${at}.`
  // The DNS server may know names that are not everybody's to read.
  if (isElsewhere) {
    return `The CAA records of the name to which ${at} is a CNAME do not allow a certificate for ${domain.name}. Let them allow ${identity}.`
  }
  switch (refusal.kind) {
    case 'critical':
      return `A CAA record of ${at} has the property ${named}, marked critical, which authorities do not know: they refuse ${domain.name}. Remove it.`
    case 'account': {
      const account = authority?.accountUri
      return `The CAA records of ${at} allow ${identity} only the account ${named}, and ours is ${account}. Set accounturi to ours, or remove it.`
    }
    case 'method':
      return (
        `The CAA records of ${at} allow ${identity} only the proofs ${named}, and ${domain.name} is proved by ` +
        `${isWildcard(domain.name) ? 'dns-01' : 'http-01'}. Add it to validationmethods.`
      )
    default:
      return (
        `The CAA records of ${at} allow ${named === '' ? 'nobody' : `only ${named}`} to issue ` +
        `${refusal.isForWildcards ? 'wildcard certificates' : 'certificates'} for ${baseOf(domain.name)}. ${add}`
      )
  }
}

function challengeProblems({ challenge, domain, ipv4 }: CheckFacts): CheckProblem[] {
  const target = domain.challengeTarget
  if (challenge === null || target === null || challenge.targets.includes(target)) return []
  const at = challengeName(domain.name)
  const set = `Set for ${at}: CNAME ${target}.`
  const [other] = challenge.targets
  // The CNAME record of the wildcard covers this name as well, until it has one of its own.
  if (other !== undefined && other !== ipv4.names[1]) {
    const message = `${at} is a CNAME of ${readable(other)}, and not of ${target}, where this server proves ${domain.name} to the authority.`
    return [error('challenge_elsewhere', `${message} ${set}`)]
  }
  const reason = challenge.failure === null ? 'has no CNAME record of its own' : `cannot be read (${challenge.failure})`
  const message = `${at} ${reason}. A wildcard is proved to the authority by a record there.`
  return [error('challenge_missing', `${message} ${set}`)]
}
