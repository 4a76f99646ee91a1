import type { DeploymentStage } from '../../contract/deployments.ts'
import { DeploymentError } from '../state/failure.ts'

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
