import type { DeploymentStage, DeploymentStep, StepTimes } from '../../contract/deployments.ts'
import { DeploymentError } from './failure.ts'
import type { JobTransitions } from './rows.ts'
import type { DeploymentRow } from './tables.ts'

/**
 * Records when the steps of a deployment begin. Each step ends when the next begins, and the last step with the
 * deployment.
 */
export interface StepRecorder {
  begin(name: DeploymentStep): void
  /** Resolves when everything is written. Never rejects: a deployment does not depend on its times. */
  settle(): Promise<void>
}

/** Steps that begin during a write to the database are written together, so that no step waits for the database. */
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

type Row = Pick<
  DeploymentRow,
  'generation' | 'status' | 'steps' | 'last_request' | 'created_at' | 'started_at' | 'finished_at'
>

/** Returns the request that led to the release's current state; null for its creation. */
export function lastRequestOf({ generation, last_request }: Pick<Row, 'generation' | 'last_request'>) {
  return last_request?.generation === generation ? last_request : null
}

const requestedAt = (row: Row): string => lastRequestOf(row)?.at ?? row.created_at.toISOString()

/**
 * Returns the times of a deployment's steps. The last step of an ended deployment ended with it, also when the
 * deployment was canceled or its server died.
 */
export function stepsOf(row: Row): readonly StepTimes[] {
  const ended = row.status === 'building' ? null : (row.finished_at?.toISOString() ?? null)
  const recorded = row.steps?.generation === row.generation ? row.steps.steps : []
  const waiting: StepTimes = { name: 'queued', started_at: requestedAt(row), finished_at: null }
  const steps = recorded.length > 0 || row.started_at !== null ? recorded : [waiting]
  return steps.map((step) => ({ ...step, finished_at: step.finished_at ?? ended }))
}

/** Returns the steps after the next step has begun. No step ends before its beginning, though two clocks may differ. */
function withStep(steps: readonly StepTimes[], name: DeploymentStep, now: Date): readonly StepTimes[] {
  const last = steps.at(-1)
  if (last === undefined) return [{ name, started_at: now.toISOString(), finished_at: null }]
  if (last.name === name) return steps
  const at = now.toISOString() > last.started_at ? now.toISOString() : last.started_at
  return [...steps.slice(0, -1), { ...last, finished_at: at }, { name, started_at: at, finished_at: null }]
}

const queuedSteps = (row: Row): readonly StepTimes[] => [
  { name: 'queued', started_at: requestedAt(row), finished_at: null },
]

/** Runs a step with a deadline. Rejects with a `DeploymentError` of the code `timeout` when it passes. */
export async function within<T>(
  stage: DeploymentStage,
  timeoutMs: number,
  signal: AbortSignal,
  step: (limit: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = AbortSignal.timeout(timeoutMs)
  try {
    return await step(AbortSignal.any([signal, deadline]))
  } catch (error) {
    if (deadline.aborted && !signal.aborted && !(error instanceof DeploymentError)) {
      throw new DeploymentError(
        stage,
        'timeout',
        `The ${stage} took longer than ${timeoutMs / 1000} s and was stopped.`,
      )
    }
    throw error
  }
}
