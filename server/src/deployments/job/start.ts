import type { Instance, Plan, Release } from '../../runtimes/runtime.ts'
import type { DeploymentRow } from '../state/store.ts'
import { drain, stopGraceMs } from './drain.ts'
import type { DeployParts } from './parts.ts'

/**
 * Starts the release, or takes it as it is: one that was replaced a moment ago still finishes its requests, and to go
 * back to it needs no new process. One that is to be started anew loses the address and ends first.
 */
export async function startRelease(
  parts: DeployParts,
  deployment: DeploymentRow,
  release: Release,
  plan: Plan,
  signal: AbortSignal,
): Promise<Instance> {
  const { instance } = deployment
  if (instance !== null && (await parts.runner.inspect(instance)).state === 'listening') return instance
  if (deployment.retained) {
    await drain(parts, deployment, signal)
    await parts.runner.halt(release, { graceMs: stopGraceMs, signal })
  }
  signal.throwIfAborted()
  return parts.runner.start(release, plan)
}
