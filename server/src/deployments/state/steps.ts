import type { DeploymentStep, StepTimes } from '../../contract/deployments.ts'
import type { DeploymentRow } from './tables.ts'

type Row = Pick<
  DeploymentRow,
  'generation' | 'status' | 'steps' | 'last_request' | 'created_at' | 'started_at' | 'finished_at'
>

/** Returns the request that the release as it is now follows; null for its creation. */
export function lastRequestOf({ generation, last_request }: Pick<Row, 'generation' | 'last_request'>) {
  return last_request?.generation === generation ? last_request : null
}

/** Returns the time in RFC 3339 at which the release as it is now was asked for. */
const requestedAt = (row: Row): string => lastRequestOf(row)?.at ?? row.created_at.toISOString()

/**
 * Returns the times of a deployment's steps. The last step of a deployment that came to rest ended with it, also when it
 * was canceled or its server died.
 */
export function stepsOf(row: Row): readonly StepTimes[] {
  const ended = row.status === 'building' ? null : (row.finished_at?.toISOString() ?? null)
  const recorded = row.steps?.generation === row.generation ? row.steps.steps : []
  const waiting: StepTimes = { name: 'queued', started_at: requestedAt(row), finished_at: null }
  const steps = recorded.length > 0 || row.started_at !== null ? recorded : [waiting]
  return steps.map((step) => ({ ...step, finished_at: step.finished_at ?? ended }))
}

/** Returns the steps after the next one has begun. No step ends before its beginning, though two clocks may differ. */
export function withStep(steps: readonly StepTimes[], name: DeploymentStep, now: Date): readonly StepTimes[] {
  const last = steps.at(-1)
  if (last === undefined) return [{ name, started_at: now.toISOString(), finished_at: null }]
  if (last.name === name) return steps
  const at = now.toISOString() > last.started_at ? now.toISOString() : last.started_at
  return [...steps.slice(0, -1), { ...last, finished_at: at }, { name, started_at: at, finished_at: null }]
}

/** Returns the steps of a deployment whose job begins: it was queued from the request for it on. */
export const queuedSteps = (row: Row): readonly StepTimes[] => [
  { name: 'queued', started_at: requestedAt(row), finished_at: null },
]
