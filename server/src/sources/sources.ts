/** Brings the files of commits from git repositories, by way of caches that hold no more than the remote would give. */
export interface Sources {
  /**
   * Brings one commit into `directory`, submodules included, without its history. Rejects with a `SourceError` that says
   * what the repository lacks, or with the signal's reason.
   */
  fetch(request: FetchRequest, signal: AbortSignal): Promise<FetchedSource>
  /** Returns the bytes of a project's caches; some number above `enough` as soon as there are more. */
  cacheSize(projectId: string, enough?: number): Promise<number>
  /** Removes the caches of a project. */
  removeProject(projectId: string): Promise<void>
}

export interface FetchRequest {
  readonly projectId: string
  readonly gitUrl: string
  readonly branch: string | null
  /** The full hash of the commit; null for the tip of the branch. */
  readonly commit: string | null
  readonly token: string | null
  readonly directory: string
}

export interface FetchedSource {
  /** Null when a commit was asked for without a branch. */
  readonly branch: string | null
  readonly commit: string
}

/** A source that cannot be fetched. The message tells the owner what to do. */
export class SourceError extends Error {
  override readonly name = 'SourceError'
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}
