import type { BuildPlan } from '../../builds/build-plan.ts'
import type { Handle, Release } from '../../runtimes/runtime.ts'
import type { DeploymentRow } from '../tables.ts'
import { type InstanceControl, releaseRef } from './instances.ts'
import { type Routes, stopGraceMs } from './routes.ts'

/**
 * Starts a release, or returns its running instance: a release that was replaced a moment ago is still finishing its
 * requests, and a rollback to it needs no new process. A release that is started again loses the address and ends first.
 */
export type StartStep = (row: DeploymentRow, release: Release, plan: BuildPlan, signal: AbortSignal) => Promise<Handle>

export function createStartStep({
  instances,
  routes,
}: {
  readonly instances: Pick<InstanceControl, 'observe' | 'halt' | 'start'>
  readonly routes: Pick<Routes, 'drain'>
}): StartStep {
  return async (row, release, plan, signal) => {
    const { instance } = row
    if (instance !== null && (await instances.observe(instance)).state === 'listening') return instance
    if (row.retained) {
      await routes.drain(row, signal)
      await instances.halt(releaseRef(row), { graceMs: stopGraceMs, signal })
    }
    signal.throwIfAborted()
    return instances.start(release, row.runtime, plan.start)
  }
}
