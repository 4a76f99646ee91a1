import type { DeploymentStep } from '../../../contract/deployments.ts'
import type { JobTransitions } from '../../state/job-transitions.ts'
import { queuedSteps, withStep } from '../../state/steps.ts'
import type { DeploymentRow } from '../../state/tables.ts'

/** Records when the steps of a deployment begin. Each ends as the next one begins, and the last with the deployment. */
export interface StepRecorder {
  begin(name: DeploymentStep): void
  /** Resolves when everything is written. Never rejects: a deployment does not depend on its times. */
  settle(): Promise<void>
}

/** Steps that follow each other while the database is written to are written together, so that none waits for it. */
export function createStepRecorder(jobs: Pick<JobTransitions, 'noteSteps'>, row: DeploymentRow): StepRecorder {
  let steps = queuedSteps(row)
  let writing: Promise<void> | undefined
  const write = async () => {
    for (let written: typeof steps | undefined; written !== steps; ) {
      written = steps
      await jobs.noteSteps(row, steps).catch(() => undefined)
    }
    writing = undefined
  }
  return {
    begin(name) {
      const next = withStep(steps, name, new Date())
      if (next === steps) return
      steps = next
      writing ??= write()
    },
    async settle() {
      await writing
    },
  }
}
