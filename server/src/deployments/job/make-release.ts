import type { BuildPlan } from '../../builds/build-plan.ts'
import type { PlanResult } from '../../builds/source/result.ts'
import type { Background } from '../../platform/background.ts'
import type { Release } from '../../runtimes/runtime.ts'
import type { Runtimes } from '../../runtimes/runtimes.ts'
import { DeploymentError } from '../state/failure.ts'
import type { DeploymentRow } from '../state/tables.ts'
import type { BuildStep } from './build.ts'
import type { FetchStep } from './fetch.ts'

/** Fetches, plans and builds a release, and returns its plan. The caller removes what is left of one that failed. */
export type MakeRelease = (row: DeploymentRow, release: Release, signal: AbortSignal) => Promise<BuildPlan>

export function createMakeRelease(dependencies: {
  readonly runtimes: Pick<Runtimes, 'named'>
  readonly fetch: FetchStep
  /** Decides how the source tree in a folder is built and started. */
  readonly plan: (directory: string) => Promise<PlanResult>
  /** Limits the number of builds that run at once; accounts take turns. */
  readonly slots: { use<T>(owner: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> }
  readonly build: BuildStep
  readonly trimCaches: () => Promise<void>
  readonly background: Background
}): MakeRelease {
  const { runtimes, fetch, plan, slots, build, trimCaches, background } = dependencies
  return async (row, release, signal) => {
    const runtime = runtimes.named(row.runtime)
    try {
      const directory = await runtime.builder.prepare(release)
      await fetch(row, { directory, releases: runtime.releases }, signal)
      const planned = await plan(directory)
      if (!planned.ok) throw new DeploymentError('plan', planned.failure.code, planned.failure.message)
      await runtime.builder.seal(release, signal)
      await slots.use(row.account_id, signal, () => build(release, runtime, planned.plan, signal))
      return planned.plan
    } finally {
      background.add(trimCaches(), { deployment: row.id, what: 'trimming caches' })
    }
  }
}
