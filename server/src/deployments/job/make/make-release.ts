import type { BuildPlan, PlanRequest } from '../../../builds/build-plan.ts'
import type { PlanApart } from '../../../builds/planner.ts'
import type { PlanFailure, Result } from '../../../builds/result.ts'
import { staticServerName } from '../../../platform/toolchain.ts'
import type { Release, Runtime } from '../../../runtimes/runtime.ts'
import type { Runtimes } from '../../../runtimes/runtimes.ts'
import { DeploymentError } from '../../failure.ts'
import { web } from '../../process-types.ts'
import type { JobReads } from '../../reads.ts'
import type { JobTransitions } from '../../rows.ts'
import type { StepRecorder } from '../../steps.ts'
import type { DeploymentRow } from '../../tables.ts'
import type { Guarded } from '../disk.ts'
import { nameUnset } from '../explain/unset-variables.ts'
import { NoLongerDesired } from '../switch-over.ts'
import type { BuildStep, BuildWork } from './build.ts'
import type { FetchStep } from './fetch.ts'

/** Makes a release of what its deployment names, and returns its plan, see `BuildStep`. The caller removes what is left of one that failed. */
export type MakeRelease = (
  row: DeploymentRow,
  release: Release,
  steps: Pick<StepRecorder, 'begin'>,
  signal: AbortSignal,
) => Promise<Guarded<BuildPlan>>

interface MakeReleaseDependencies {
  readonly runtimes: Pick<Runtimes, 'preferred' | 'packs' | 'all'>
  readonly jobs: Pick<JobTransitions, 'moveTo'>
  readonly rows: Pick<JobReads, 'latestBuilt'>
  readonly fetch: FetchStep
  /** Decides how the source tree in a folder is built and started. */
  readonly plans: PlanApart
  /** Returns the plan with the start that fits what the build has made in the folder since a time. */
  readonly chooseOutput: (directory: string, plan: BuildPlan, since: number) => Promise<Result<BuildPlan>>
  readonly build: BuildStep
}

/** Makes the function that fetches, plans and builds sources. */
export function createMakeRelease(dependencies: MakeReleaseDependencies): MakeRelease {
  const { runtimes, fetch, plans, chooseOutput, build } = dependencies
  return async (row, release, steps, signal) => {
    steps.begin('fetch')
    // Sources need a folder alone, until their plan says which runtime makes the release.
    const runtime = runtimes.preferred
    const planning = plans.begin(row.account_id)
    try {
      const directory = await runtime.builder.prepare(release)
      const { fits } = await fetch(row, { directory, releases: runtime.releases }, signal)
      steps.begin('plan')
      const request = requestOf(dependencies, row)
      // Both only read, and what does not fit may well have no plan.
      const [fitting, planned] = await Promise.allSettled([
        fits(),
        request.then((given) => planning.finish(directory, given, signal)),
      ])
      if (fitting.status === 'rejected') throw fitting.reason
      if (planned.status === 'rejected') throw planned.reason
      if (!planned.value.ok) throw notPlanned(planned.value.failure)
      const { plan } = planned.value
      const maker = await makerOf(dependencies, row, plan)
      await maker.builder.seal(release, signal, nextOf(plan))
      const finish: BuildWork['finish'] = (built, since) => chooseOutput(directory, built, since)
      const packs = createPacks(dependencies, row, release)
      const work = { plan, finish, steps, pack: packs.pack }
      const made = await build(row, release, maker, work, signal).catch((error: unknown) => {
        throw nameUnset(error, plan, release.variables)
      })
      const isPacked = packs.isPacked()
      // Measured while the files are there.
      if (isPacked) await made.fits()
      // An image has all that it needs of its sources.
      if (maker !== runtime || isPacked) await runtime.releases.remove(release)
      return isPacked ? { value: made.value, fits: async () => undefined } : made
    } finally {
      planning.end()
    }
  }
}

/** Returns what the plan depends on besides the files. */
async function requestOf(
  { runtimes, rows }: Pick<MakeReleaseDependencies, 'runtimes' | 'rows'>,
  { app_id, root }: DeploymentRow,
): Promise<PlanRequest> {
  const before = await rows.latestBuilt(app_id)
  const images = runtimes.all.find((runtime) => runtime.images !== null)?.images ?? null
  return {
    root,
    images: images !== null,
    canBuildImages: images?.canBuild !== false,
    before: before?.build_plan?.kind ?? null,
  }
}

/** Returns the runtime that makes the release and keeps it, which the row says from now on. */
async function makerOf(
  { runtimes, jobs }: Pick<MakeReleaseDependencies, 'runtimes' | 'jobs'>,
  row: DeploymentRow,
  plan: BuildPlan,
): Promise<Runtime> {
  const maker = plan.image === undefined ? runtimes.preferred : runtimes.all.find(({ images }) => images !== null)
  if (maker === undefined) throw new DeploymentError('plan', 'no_docker', 'This server builds no Dockerfiles any more.')
  if (maker.name !== row.runtime && !(await jobs.moveTo(row, maker.name))) throw new NoLongerDesired()
  return maker
}

/** Makes the function that makes a release of the runtime of all programs, where that is another one than builds it. */
function createPacks(
  { runtimes: { packs }, jobs }: Pick<MakeReleaseDependencies, 'runtimes' | 'jobs'>,
  row: DeploymentRow,
  release: Release,
): { readonly pack: NonNullable<BuildWork['pack']>; isPacked(): boolean } {
  let isPacked = false
  return {
    isPacked: () => isPacked,
    async pack({ start, processes = {} }, options) {
      if (packs === null) return
      if (start.argv.includes(staticServerName)) {
        const { [web]: _, ...others } = processes
        if (Object.keys(others).length > 0) throw siteWithPrograms()
        // The gateway serves its folder, and nothing of it runs.
        return
      }
      const { runtime, pack } = packs
      if (!(await jobs.moveTo(row, runtime.name))) throw new NoLongerDesired()
      await pack(release, options)
      isPacked = true
    },
  }
}

const siteWithPrograms = (): DeploymentError =>
  new DeploymentError(
    'build',
    'no_process',
    'This server runs all programs in containers, and a static site has none: it can have no other process types. Deploy those as an app of their own.',
  )

/** Returns what a runtime may prepare for. */
const nextOf = ({ build, image, outputs, start }: BuildPlan) => ({
  builds: build.length > 0 || image !== undefined,
  start: outputs === undefined && image === undefined ? start : null,
})

const notPlanned = ({ code, message, suggestions }: PlanFailure): DeploymentError =>
  new DeploymentError('plan', code, message, suggestions)
