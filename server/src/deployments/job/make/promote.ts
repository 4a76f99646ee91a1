import { type BuildPlan, isOfImage } from '../../../builds/build-plan.ts'
import { sayAlive } from '../../../platform/alive.ts'
import type { Slots } from '../../../platform/slots.ts'
import { type Release, RuntimeError } from '../../../runtimes/runtime.ts'
import type { Runtimes } from '../../../runtimes/runtimes.ts'
import { DeploymentError } from '../../failure.ts'
import { type DeploymentLocks, isInterrupted } from '../../lock.ts'
import type { NoteInLog } from '../../release-log.ts'
import type { DeploymentStore } from '../../rows.ts'
import type { StepRecorder } from '../../steps.ts'
import type { DeploymentRow } from '../../tables.ts'
import type { DiskGuard, DiskLimit, Guarded } from '../disk.ts'
import { releaseRef } from '../instances.ts'
import type { BuildStep } from './build.ts'

/**
 * Makes the release of a deployment of the files of the one that it names, and runs its release command, which may belong to
 * another database. Returns the plan. The caller removes what is left of one that failed.
 */
export type Promote = (
  row: DeploymentRow,
  fromId: string,
  release: Release,
  steps: Pick<StepRecorder, 'begin'>,
  signal: AbortSignal,
) => Promise<Guarded<BuildPlan>>

interface PromoteDependencies {
  readonly runtimes: Pick<Runtimes, 'named'>
  readonly rows: Pick<DeploymentStore['rows'], 'find'>
  readonly locks: Pick<DeploymentLocks, 'share'>
  readonly disk: DiskGuard
  readonly build: BuildStep
  readonly note: NoteInLog
  readonly slots: Pick<Slots<string>, 'use'>
  readonly settings: { readonly mostReleaseBytes: number }
}

export function createPromote(dependencies: PromoteDependencies): Promote {
  const { runtimes, build, note, slots } = dependencies
  return async (row, fromId, release, steps, signal) => {
    // A copy writes as much as a build, and has its turn like one.
    const copy = () => {
      steps.begin('copy')
      const alive = { what: 'copying the files', say: (line: string) => note(release, 'build', line) }
      return sayAlive(alive, () => copyKept(dependencies, row, fromId, release, signal))
    }
    const plan = await slots.use(row.account_id, signal, copy, () => steps.begin('queued'))
    // A copy of an image is another name of it, and there is nothing to run.
    if (isOfImage(plan)) return { value: plan, fits: async () => undefined }
    const origin = `The files are those of ${fromId}, which were not built again.`
    const work = {
      plan: { ...plan, build: [], notes: [origin] },
      finish: async () => ({ ok: true as const, value: plan }),
      steps,
      toolchain: 'kept' as const,
    }
    return build(row, release, runtimes.named(row.runtime), work, signal)
  }
}

/** Copies under the lock of the origin, so that nothing removes its files meanwhile. Its owner's requests come first. */
async function copyKept(
  { runtimes, rows, locks, disk, settings }: PromoteDependencies,
  row: DeploymentRow,
  fromId: string,
  release: Release,
  signal: AbortSignal,
): Promise<BuildPlan> {
  const { builder, releases } = runtimes.named(row.runtime)
  const limit: DiskLimit = {
    stage: 'build',
    mostBytes: settings.mostReleaseBytes,
    baseline: async () => 0,
    measure: (enough) => releases.diskUsage(release, 'release', enough),
  }
  const copy = async (held: AbortSignal): Promise<BuildPlan> => {
    const from = await rows.find(fromId)
    if (from?.retained !== true || from.build_plan === null || from.runtime !== row.runtime) throw notKept(fromId)
    const { build_plan } = from
    const { fits } = await disk.guard(limit, held, (guarded) => builder.copy(releaseRef(from), release, guarded))
    await fits()
    return build_plan
  }
  let again = true
  let plan: BuildPlan | undefined
  while (again) {
    // Shared: the release may serve, and what keeps it running must not wait for the copy.
    const copying = await locks.share(
      fromId,
      async ({ signal: held, meanwhile }) => ({ plan: meanwhile(copy(AbortSignal.any([signal, held]))), held }),
      signal,
    )
    plan = await copying.plan.catch((error: unknown) => {
      signal.throwIfAborted()
      if (isInterrupted(copying.held)) return undefined
      throw error instanceof RuntimeError ? new DeploymentError('build', error.code, error.message) : error
    })
    again = plan === undefined
  }
  if (plan === undefined) throw notKept(fromId)
  return plan
}

const notKept = (id: string): DeploymentError =>
  new DeploymentError('build', 'not_kept', `The release of ${id} is not kept any more. Deploy its commit instead.`)
