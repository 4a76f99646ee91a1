import type { CommitInfo } from './commit-info.ts'
import type { FetchDependencies, FetchedSource, FetchRequest, UploadRequest } from './fetch.ts'
import { fetchSource, fetchUploaded } from './fetch.ts'

export type { CommitInfo } from './commit-info.ts'
export type { FetchedSource, FetchRequest, UploadRequest } from './fetch.ts'
export { sameRepository } from './git-url.ts'
export type { FileRule } from './local-repository.ts'
export { SourceError } from './source-error.ts'

/** How git reaches a repository. */
export type GitAccess = Pick<FetchRequest, 'credentials' | 'hostKeys'>

/** Fetches commits from git repositories, through caches that give no commit that the remote would refuse. */
export interface Sources {
  /**
   * Fetches one commit into the request's directory, submodules included, without its history. Rejects with a
   * `SourceError` that says what the repository lacks, or with the signal's reason.
   */
  fetch(request: FetchRequest, signal: AbortSignal): Promise<FetchedSource>
  /** Writes the files of an uploaded source into the request's directory, in the same way. */
  fetchUploaded(request: UploadRequest, signal: AbortSignal): Promise<CommitInfo | null>
  /** Returns the bytes of a project's caches; some number above `enough` as soon as there are more. */
  cacheSize(projectId: string, enough?: number): Promise<number>
  /** Removes the caches of a project. */
  removeProject(projectId: string): Promise<void>
}

export function createSources(dependencies: FetchDependencies): Sources {
  const { cache } = dependencies
  return {
    fetch: (request, signal) => fetchSource(dependencies, request, signal),
    fetchUploaded: (request, signal) => fetchUploaded(dependencies, request, signal),
    cacheSize: cache.size,
    removeProject: cache.removeProject,
  }
}
