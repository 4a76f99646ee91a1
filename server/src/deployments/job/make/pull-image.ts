import { type BuildPlan, imagePlan } from '../../../builds/build-plan.ts'
import { formatImageReference, type ImageReference, parseImageReference } from '../../../contract/image-reference.ts'
import type { LogStore } from '../../../logs/log-store.ts'
import { createSlots } from '../../../platform/slots.ts'
import { type RegistryCredentials, type Release, type Runtime, RuntimeError } from '../../../runtimes/runtime.ts'
import type { Runtimes } from '../../../runtimes/runtimes.ts'
import { DeploymentError } from '../../failure.ts'
import { inBuildLog, withBuildLog } from '../../release-log.ts'
import type { JobTransitions } from '../../rows.ts'
import { type StepRecorder, within } from '../../steps.ts'
import type { DeploymentRow } from '../../tables.ts'
import type { DiskGuard, DiskLimit, Guarded } from '../disk.ts'

/**
 * Makes the image that a deployment names its release, notes its digest, and returns the plan. An image whose digest is known
 * is pulled by that, whatever its tag names by now. The caller removes what is left of one that failed.
 */
export type PullImage = (
  row: DeploymentRow,
  image: string,
  release: Release,
  steps: Pick<StepRecorder, 'begin'>,
  signal: AbortSignal,
) => Promise<Guarded<BuildPlan>>

interface PullDependencies {
  readonly runtimes: Pick<Runtimes, 'named'>
  readonly logs: Pick<LogStore, 'open' | 'record'>
  /** Returns the credentials that a project has for a registry; null without. */
  readonly credentialsFor: (projectId: string, registry: string) => Promise<RegistryCredentials | null>
  /** Throws a `DeploymentError` for a registry that tenants may not reach through this server. */
  readonly assertReachable: (registry: string) => Promise<void>
  /** Returns the volumes that images of an app have. */
  readonly volumesOf: (appId: string) => Promise<Readonly<Record<string, string>>>
  readonly jobs: Pick<JobTransitions, 'pulled'>
  readonly disk: DiskGuard
  readonly settings: { readonly buildTimeoutMs: number; readonly mostReleaseBytes: number }
}

/** Pulls unpack what they load. Accounts take turns, and no build waits for a pull. */
const pullsAtOnce = 2

export function createPullImage(dependencies: PullDependencies): PullImage {
  const slots = createSlots<string>(pullsAtOnce)
  return async (row, image, release, steps, signal) => {
    const runtime = dependencies.runtimes.named(row.runtime)
    const reference = referenceOf(row, image)
    await dependencies.assertReachable(reference.registry)
    return slots.use(row.account_id, signal, async () => {
      steps.begin('fetch')
      const { value: pulled, fits } = await pull(dependencies, row, { reference, release, runtime }, signal)
      await dependencies.jobs.pulled(row, digestOf(pulled))
      return { value: { ...imagePlan, volumes: await dependencies.volumesOf(row.app_id) }, fits }
    })
  }
}

/** Returns the image to pull, by its digest where that is known. */
function referenceOf({ image_digest: digest }: DeploymentRow, image: string): ImageReference {
  const reference = parseImageReference(image)
  // The request has checked it.
  if ('problem' in reference) throw new DeploymentError('fetch', 'image_not_found', `The image ${reference.problem}.`)
  return digest === null ? reference : { ...reference, digest }
}

/** Returns the reference by which the very same image is found again. */
async function pull(
  { logs, credentialsFor, disk, settings }: PullDependencies,
  row: DeploymentRow,
  given: { readonly reference: ImageReference; readonly release: Release; readonly runtime: Runtime },
  signal: AbortSignal,
): Promise<Guarded<string>> {
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
    // An image may be as large as what a build makes.
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

/** Returns the digest of a reference such as `registry/name@sha256:…`. */
function digestOf(reference: string): string {
  const digest = reference.slice(reference.indexOf('@') + 1)
  if (digest.startsWith('sha256:')) return digest
  throw new Error(`the runtime has pulled ${reference}, which has no digest`)
}
