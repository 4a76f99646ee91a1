import type { Deployment, Step } from './deployments.ts'

/** A step of a deployment for display. */
export interface ShownStep {
  readonly name: Step['name']
  readonly state: 'done' | 'active' | 'failed' | 'ended' | 'pending'
  /** Null for a step that has not begun. */
  readonly startedAt: string | null
  readonly finishedAt: string | null
}

const afterQueue: readonly Step['name'][] = ['fetch', 'plan', 'build', 'start', 'check', 'switch']
const ofCopy: readonly Step['name'][] = ['copy', 'build', 'start', 'check', 'switch']
const ofImage: readonly Step['name'][] = ['fetch', 'start', 'check', 'switch']
const ofImageCopy: readonly Step['name'][] = ['copy', 'start', 'check', 'switch']
const ofStartAgain: readonly Step['name'][] = ['start', 'check', 'switch']

/**
 * Returns the steps that have begun and, while a deployment is building, the next steps. A kept release has no build, a
 * copied release no fetch, and an image no plan and no build.
 */
export function shownSteps(
  deployment: Pick<Deployment, 'status' | 'steps' | 'failure' | 'kept' | 'from_deployment_id' | 'image'>,
): ShownStep[] {
  const { steps, status } = deployment
  const begun = steps.map((step, index): ShownStep => {
    const state = index < steps.length - 1 ? 'done' : lastState(deployment)
    return { name: step.name, state, startedAt: step.started_at, finishedAt: step.finished_at }
  })
  if (status !== 'building') return begun
  const names = stepsOf(deployment)
  const furthest = Math.max(...steps.map(({ name }) => names.indexOf(name)))
  const pending = names
    .slice(furthest + 1)
    .map((name): ShownStep => ({ name, state: 'pending', startedAt: null, finishedAt: null }))
  return [...begun, ...pending]
}

function stepsOf({
  kept,
  from_deployment_id: from,
  image,
}: Pick<Deployment, 'kept' | 'from_deployment_id' | 'image'>): readonly Step['name'][] {
  if (kept) return ofStartAgain
  if (image !== null) return from === null ? ofImage : ofImageCopy
  return from === null ? afterQueue : ofCopy
}

/** A release that crashed after its switch has no failed step. */
function lastState({ status, failure, steps }: Pick<Deployment, 'status' | 'steps' | 'failure'>): ShownStep['state'] {
  if (status === 'building') return 'active'
  if (status === 'failed' && failure?.stage !== 'run') return 'failed'
  return steps.at(-1)?.name === 'switch' ? 'done' : 'ended'
}
