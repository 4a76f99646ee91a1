import type { ReleaseStore } from '../../runtimes/runtime.ts'
import { SourceError, type Sources } from '../../sources/sources.ts'
import { DeploymentError } from '../state/failure.ts'
import type { JobTransitions } from '../state/job-transitions.ts'
import type { DeploymentSecrets } from '../state/secrets.ts'
import type { DeploymentRow } from '../state/tables.ts'
import type { DiskGuard, DiskLimit } from './disk.ts'
import { releaseRef } from './instances.ts'
import { within } from './within.ts'

/** Fetches the sources of a deployment into a folder of its release, and records the commit. */
export type FetchStep = (
  row: DeploymentRow,
  /** The folder, and the part of the runtime that measures it. */
  target: { readonly directory: string; readonly releases: Pick<ReleaseStore, 'diskUsage'> },
  signal: AbortSignal,
) => Promise<void>

export function createFetchStep(dependencies: {
  readonly sources: Pick<Sources, 'fetch' | 'cacheSize'>
  readonly disk: Pick<DiskGuard, 'guard'>
  readonly secrets: Pick<DeploymentSecrets, 'tokenOf'>
  readonly jobs: Pick<JobTransitions, 'fetched'>
  readonly settings: { readonly fetchTimeoutMs: number; readonly mostSourceBytes: number }
}): FetchStep {
  const { sources, disk, secrets, jobs, settings } = dependencies
  return async (row, { directory, releases }, signal) => {
    const request = {
      projectId: row.project_id,
      gitUrl: row.git_url,
      branch: row.branch,
      commit: row.commit,
      token: secrets.tokenOf(row),
      directory,
    }
    const limit = { stage: 'fetch', mostBytes: settings.mostSourceBytes } as const
    const files: DiskLimit = {
      ...limit,
      baseline: async () => 0,
      measure: (enough) => releases.diskUsage(releaseRef(row), 'release', enough),
    }
    const caches: DiskLimit = {
      ...limit,
      baseline: () => sources.cacheSize(row.project_id),
      measure: (enough) => sources.cacheSize(row.project_id, enough),
    }
    const fetched = await within('fetch', settings.fetchTimeoutMs, signal, (limited) =>
      disk.guard(files, limited, (guarded) =>
        disk.guard(caches, guarded, (both) => sources.fetch(request, both).catch(asDeploymentError)),
      ),
    )
    await jobs.fetched(row, fetched)
  }
}

function asDeploymentError(error: unknown): never {
  if (error instanceof SourceError) throw new DeploymentError('fetch', error.code, error.message)
  throw error
}
