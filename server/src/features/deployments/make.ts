import { type BuildPlan, imagePlan, isOfImage, type PlanRequest } from '../../builds/build-plan.ts'
import type { PlanApart } from '../../builds/planner.ts'
import type { PlanFailure, Result } from '../../builds/result.ts'
import { formatImageReference, type ImageReference, parseImageReference } from '../../contract/image-reference.ts'
import type { LogStore } from '../../logs/log-store.ts'
import { sayAlive } from '../../platform/alive.ts'
import { type Outbound, OutboundError } from '../../platform/outbound.ts'
import { createSlots, type Slots } from '../../platform/slots.ts'
import { staticServerName } from '../../platform/toolchain.ts'
import { type RegistryCredentials, type Release, type Runtime, RuntimeError } from '../../runtimes/runtime.ts'
import type { Runtimes } from '../../runtimes/runtimes.ts'
import { nameUnset } from './advice.ts'
import type { BuildStep, BuildWork } from './build.ts'
import type { DiskGuard, DiskLimit, Unmeasured } from './disk-guard.ts'
import { DeploymentError } from './failure.ts'
import type { FetchStep } from './fetch.ts'
import { releaseRef } from './instances.ts'
import { type DeploymentLocks, isInterrupted } from './lock.ts'
import { web } from './process-types.ts'
import type { JobReads } from './reads.ts'
import { inBuildLog, type NoteInLog, withBuildLog } from './release-log.ts'
import type { DeploymentStore, JobTransitions } from './rows.ts'
import { type StepRecorder, within } from './steps.ts'
import { NoLongerDesired } from './switch.ts'
import type { DeploymentRow } from './tables.ts'

export const createMake =
  (ways: { readonly promote: Promote; readonly pullImage: PullImage; readonly ofSources: MakeRelease }): MakeRelease =>
  (row, release, steps, signal) => {
    const { from_deployment_id: from, image } = row
    if (from !== null) return ways.promote(row, from, release, steps, signal)
    if (image !== null) return ways.pullImage(row, image, release, steps, signal)
    return ways.ofSources(row, release, steps, signal)
  }

/**
 * Makes a release from a deployment's source: another release, an image, or files. Returns its plan, see `BuildStep`.
 * The caller removes the remains of a failed release.
 */
export type MakeRelease = (
  row: DeploymentRow,
  release: Release,
  steps: Pick<StepRecorder, 'begin'>,
  signal: AbortSignal,
) => Promise<Unmeasured<BuildPlan>>

interface MakeReleaseDependencies {
  readonly runtimes: Pick<Runtimes, 'preferred' | 'packs' | 'all'>
  readonly jobs: Pick<JobTransitions, 'moveTo'>
  readonly rows: Pick<JobReads, 'latestBuilt'>
  readonly fetch: FetchStep
  readonly plans: PlanApart
  readonly chooseOutput: (directory: string, plan: BuildPlan, since: number) => Promise<Result<BuildPlan>>
  readonly build: BuildStep
}

export function createMakeRelease(dependencies: MakeReleaseDependencies): MakeRelease {
  const { runtimes, fetch, plans, chooseOutput, build } = dependencies
  return async (row, release, steps, signal) => {
    steps.begin('fetch')
    // Sources need only a folder until their plan says which runtime makes the release.
    const runtime = runtimes.preferred
    const planning = plans.begin(row.account_id)
    try {
      const directory = await runtime.builder.prepare(release)
      const { withinLimit } = await fetch(row, { directory, releases: runtime.releases }, signal)
      steps.begin('plan')
      const request = requestOf(dependencies, row)
      // Both only read, and a source tree that is too large may have no plan.
      const [measured, planned] = await Promise.allSettled([
        withinLimit(),
        request.then((given) => planning.finish(directory, given, signal)),
      ])
      if (measured.status === 'rejected') throw measured.reason
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
      // Measured while the files exist.
      if (isPacked) await made.withinLimit()
      if (maker !== runtime || isPacked) await runtime.releases.remove(release)
      return isPacked ? { value: made.value, withinLimit: async () => undefined } : made
    } finally {
      planning.end()
    }
  }
}

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

/** Returns the runtime that makes and keeps the release, and records it in the row. */
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

/**
 * Returns a function that turns a build into a release of the runtime that runs programs, if another runtime has built
 * it.
 */
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
        const { [web]: _, ...rest } = processes
        if (Object.keys(rest).length > 0) throw siteWithPrograms()
        // The gateway serves its folder; no process runs.
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
    'This server runs all programs in containers, and a static site has none, so it can have no other process types. Deploy them as a separate app.',
  )

/** A runtime may use these facts to prepare the next steps. */
const nextOf = ({ build, image, outputs, start }: BuildPlan) => ({
  builds: build.length > 0 || image !== undefined,
  start: outputs === undefined && image === undefined ? start : null,
})

const notPlanned = ({ code, message, suggestions }: PlanFailure): DeploymentError =>
  new DeploymentError('plan', code, message, suggestions)

/**
 * Makes a release from the files of the release that the deployment names, and runs its release command, which may use
 * another database. The caller removes the remains of a failed release.
 */
type Promote = (
  row: DeploymentRow,
  fromId: string,
  release: Release,
  steps: Pick<StepRecorder, 'begin'>,
  signal: AbortSignal,
) => Promise<Unmeasured<BuildPlan>>

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
    // A copy writes as much as a build, and needs a slot like a build.
    const copy = () => {
      steps.begin('copy')
      const alive = { what: 'copying the files', say: (line: string) => note(release, 'build', line) }
      return sayAlive(alive, () => copyKept(dependencies, row, fromId, release, signal))
    }
    const plan = await slots.use(row.account_id, signal, copy, () => steps.begin('queued'))
    // A copy of an image is another name for it; there is no command to run.
    if (isOfImage(plan)) return { value: plan, withinLimit: async () => undefined }
    const origin = `The files come from ${fromId}, without another build.`
    const work = {
      plan: { ...plan, build: [], notes: [origin] },
      finish: async () => ({ ok: true as const, value: plan }),
      steps,
      toolchain: 'kept' as const,
    }
    return build(row, release, runtimes.named(row.runtime), work, signal)
  }
}

/**
 * Copies under the origin's lock, so that its files are not removed during the copy. Requests of the origin's owner
 * have precedence.
 */
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
    const { withinLimit } = await disk.guard(limit, held, (guarded) => builder.copy(releaseRef(from), release, guarded))
    await withinLimit()
    return build_plan
  }
  let again = true
  let plan: BuildPlan | undefined
  while (again) {
    // Shared: the release may serve, and the reconciler must not wait for the copy.
    const copying = await locks.share(
      fromId,
      async ({ signal: held, holdUntil }) => ({ plan: holdUntil(copy(AbortSignal.any([signal, held]))), held }),
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

/**
 * Makes the deployment's image its release, and records the digest. An image whose digest is known is pulled by its
 * digest, even if its tag has moved. The caller removes the remains of a failed release.
 */
type PullImage = (
  row: DeploymentRow,
  image: string,
  release: Release,
  steps: Pick<StepRecorder, 'begin'>,
  signal: AbortSignal,
) => Promise<Unmeasured<BuildPlan>>

interface PullDependencies {
  readonly runtimes: Pick<Runtimes, 'named'>
  readonly logs: Pick<LogStore, 'open' | 'record'>
  /** Returns the project's credentials for a registry; null when the project has none. */
  readonly credentialsFor: (projectId: string, registry: string) => Promise<RegistryCredentials | null>
  /** Throws a `DeploymentError` for a registry that tenants may not reach through this server. */
  readonly assertReachable: (registry: string) => Promise<void>
  readonly volumesOf: (appId: string) => Promise<Readonly<Record<string, string>>>
  readonly jobs: Pick<JobTransitions, 'pulled'>
  readonly disk: DiskGuard
  readonly settings: { readonly buildTimeoutMs: number; readonly mostReleaseBytes: number }
}

/** Few, because a pull also unpacks. Accounts take turns, and builds do not wait for pulls. */
const pullsAtOnce = 2

export function createPullImage(dependencies: PullDependencies): PullImage {
  const slots = createSlots<string>(pullsAtOnce)
  return async (row, image, release, steps, signal) => {
    const runtime = dependencies.runtimes.named(row.runtime)
    const reference = referenceOf(row, image)
    await dependencies.assertReachable(reference.registry)
    return slots.use(row.account_id, signal, async () => {
      steps.begin('fetch')
      const { value: pulled, withinLimit } = await pull(dependencies, row, { reference, release, runtime }, signal)
      await dependencies.jobs.pulled(row, digestOf(pulled))
      return { value: { ...imagePlan, volumes: await dependencies.volumesOf(row.app_id) }, withinLimit }
    })
  }
}

function referenceOf({ image_digest: digest }: DeploymentRow, image: string): ImageReference {
  const reference = parseImageReference(image)
  // The request was checked for this.
  if ('problem' in reference) throw new DeploymentError('fetch', 'image_not_found', `The image ${reference.problem}.`)
  return digest === null ? reference : { ...reference, digest }
}

async function pull(
  { logs, credentialsFor, disk, settings }: PullDependencies,
  row: DeploymentRow,
  given: { readonly reference: ImageReference; readonly release: Release; readonly runtime: Runtime },
  signal: AbortSignal,
): Promise<Unmeasured<string>> {
  const { release, runtime } = given
  const { images, releases } = runtime
  if (images === null) throw new DeploymentError('fetch', 'no_docker', 'This server runs no container images any more.')
  const reference = formatImageReference(given.reference)
  const credentials = await credentialsFor(row.project_id, given.reference.registry)
  const limit: DiskLimit = {
    stage: 'build',
    mostBytes: settings.mostReleaseBytes,
    freeElsewhere: releases.freeElsewhere,
    baseline: async () => 0,
    measure: (enough) => releases.diskUsage(release, 'release', enough),
  }
  return withBuildLog(logs, release, async (output) => {
    await output.write(`Pulling ${reference}${credentials === null ? '' : ` as ${credentials.username}`}\n`)
    // An image may be as large as the output of a build.
    return within('fetch', settings.buildTimeoutMs, signal, (limited) =>
      disk.guard(limit, limited, (guarded) =>
        inBuildLog(output, `pulling ${reference}`, () =>
          images.pull(release, { reference, credentials }, { output, signal: guarded }),
        ).catch((error: unknown) => {
          throw error instanceof RuntimeError ? new DeploymentError('fetch', error.code, error.message) : error
        }),
      ),
    )
  })
}

function digestOf(reference: string): string {
  const digest = reference.slice(reference.indexOf('@') + 1)
  if (digest.startsWith('sha256:')) return digest
  throw new Error(`the runtime has pulled ${reference}, which has no digest`)
}

/** Docker Hub: the engine knows its hosts, and the operator may have set a mirror. */
const hub = 'docker.io'

/**
 * Returns a function that throws a `DeploymentError` for a registry whose host resolves to an address that tenants may
 * not reach through this server. The engine resolves the name again later. So the check blocks names of the machine and
 * of private networks, but not a name server that gives two different answers.
 */
export function createRegistryReach(outbound: Pick<Outbound, 'mode' | 'resolve'>): (registry: string) => Promise<void> {
  return async (registry) => {
    if (outbound.mode === 'any' || registry === hub) return
    const [host = ''] = registry.split(':')
    await outbound.resolve(host).catch((error: unknown) => {
      if (error instanceof OutboundError) throw new DeploymentError('fetch', error.code, error.message)
      const message = `The host of the registry ${registry} cannot be found. Check the name of the image.`
      throw new DeploymentError('fetch', 'registry_unreachable', message)
    })
  }
}
