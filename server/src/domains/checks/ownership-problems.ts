import { type CheckFacts, ownershipName } from './facts.ts'
import { isToken } from './gather.ts'
import { type CheckProblem, error } from './problem.ts'
import { isAliasOfApp } from './verdict.ts'
import { listed, readable } from './words.ts'

/** Tells if the TXT record is there that proves whose a name is. */
export const isProven = ({ ownership, domain }: CheckFacts): boolean =>
  (ownership?.values ?? []).some((value) => isToken(value, domain.token))

export function ownershipProblems(facts: CheckFacts): CheckProblem[] {
  const { ownership, domain } = facts
  if (ownership === null || isProven(facts) || (domain.isAliasProof && isAliasOfApp(facts))) return []
  const at = ownershipName(domain.name)
  const set = `Set for ${at}: TXT ${domain.token}.`
  const { values, failure } = ownership
  if (failure !== null) {
    // Servers that give no records at all are told of already.
    if (facts.ipv4.outcome === 'failed' && facts.ipv6.outcome === 'failed') return []
    const message = `The TXT record of ${at}, which proves that the name is yours, cannot be read (${failure}).`
    return [error('txt_unreadable', `${message} Try again when the name servers answer.`)]
  }
  const [first] = values
  if (first === undefined) {
    return [error('txt_missing', `${at} has no TXT record, which proves that the name is yours. ${set}`)]
  }
  // The DNS server may know names that are not everybody's to read.
  if (ownership.isElsewhere) {
    const message = `${at} is a CNAME of a name whose TXT records do not have the value that proves that the name is yours.`
    return [error('txt_wrong', `${message} ${set}`)]
  }
  if (values.length === 1) {
    return [
      error(
        'txt_wrong',
        `The TXT record of ${at} is “${readable(first)}”, and not the value that proves that the name is yours. ${set}`,
      ),
    ]
  }
  const message = `${at} has ${values.length} TXT records (${listed(values.map((each) => `“${readable(each)}”`))}), and none of them is the value that proves that the name is yours.`
  return [error('txt_several', `${message} Remove them. ${set}`)]
}
