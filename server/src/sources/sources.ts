import type { FetchDependencies, FetchedSource, FetchRequest } from './fetch.ts'
import { fetchSource } from './fetch.ts'

export type { FetchedSource, FetchRequest } from './fetch.ts'
export { SourceError } from './source-error.ts'

/** Fetches commits from git repositories, through caches that give no commit that the remote would refuse. */
export interface Sources {
  /**
   * Fetches one commit into the request's directory, submodules included, without its history. Rejects with a
   * `SourceError` that says what the repository lacks, or with the signal's reason.
   */
  fetch(request: FetchRequest, signal: AbortSignal): Promise<FetchedSource>
  /** Returns the bytes of a project's caches; some number above `enough` as soon as there are more. */
  cacheSize(projectId: string, enough?: number): Promise<number>
  /** Removes the caches of a project. */
  removeProject(projectId: string): Promise<void>
}

export function createSources(dependencies: FetchDependencies): Sources {
  const { cache } = dependencies
  return {
    fetch: (request, signal) => fetchSource(dependencies, request, signal),
    cacheSize: cache.size,
    removeProject: cache.removeProject,
  }
}
