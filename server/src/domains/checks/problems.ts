import { addressProblems, portProblems } from './address-problems.ts'
import { certificateProblems } from './certificate-problems.ts'
import { type CheckFacts, foundAddresses } from './facts.ts'
import { conflictProblems, lookupProblem } from './lookup-problems.ts'
import { ownershipProblems } from './ownership-problems.ts'
import { type CheckProblem, inOrder } from './problem.ts'
import { judge } from './verdict.ts'
import { staleProblem, zoneProblems } from './zone-problems.ts'

/** Finds everything that is wrong with a domain, the most telling first. A pure function of what was gathered. */
export function findProblems(facts: CheckFacts): CheckProblem[] {
  const verdict = judge(facts)
  const isFound = foundAddresses(facts).length > 0
  const elsewhere = isFound ? addressProblems(facts) : [lookupProblem(facts)]
  const conflicts = conflictProblems(facts)
  // The recursive server has one of several answers, or an old one: what it says is not what to correct.
  const way = verdict.isStale
    ? [staleProblem(facts)]
    : verdict.disagree
      ? elsewhere.filter(({ severity }) => severity === 'warning')
      : elsewhere
  return inOrder([
    ...way,
    ...conflicts,
    ...zoneProblems(facts, verdict),
    ...portProblems(facts),
    ...ownershipProblems(facts),
    ...certificateProblems(facts),
  ])
}
