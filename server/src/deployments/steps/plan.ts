import { DeploymentError } from '../failure.ts'
import { type PlanOptions, planRelease, type SourceTree } from '../plan.ts'
import type { Plan } from '../runner/runner.ts'

/** How the release is built and started. Rejects with a `DeploymentError` of the stage `plan` that says what to do. */
export function planFor(tree: SourceTree, options: PlanOptions): Plan {
  const planned = planRelease(tree, options)
  if (!planned.ok) throw new DeploymentError('plan', planned.failure.code, planned.failure.message)
  return planned.plan
}
