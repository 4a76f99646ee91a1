/** The error for a source that cannot be fetched. The message tells the owner what to do. */
export class SourceError extends Error {
  override readonly name = 'SourceError'
  /** Stable and machine-readable, such as `unknown_branch`. */
  readonly code: string
  /** The message without its advice, which names fields of the request. */
  readonly problem: string

  constructor(code: string, problem: string, advice = '') {
    super(`${problem} ${advice}`.trim())
    this.code = code
    this.problem = problem
  }
}

/** The messages of these failures also fit a submodule. */
const named = new Set(['submodule_refused', 'host_key_changed', 'too_many_hosts'])

const advice: Readonly<Record<string, string>> = {
  repository_refused:
    'Check its address in .gitmodules. git_token and stored credentials are only for the host of git_url: elsewhere it must be ' +
    'public.',
  object_refused: 'Pin a commit without it.',
  unknown_commit: 'Push that commit there, or pin one that it has.',
}

/**
 * Rethrows a submodule's failure with advice for the owner of the parent, because a submodule gets its address and
 * commit from its parent. Rethrows other errors unchanged.
 *
 * @param path the submodule; `null` for the repository itself
 */
export function namingSubmodule(path: string | null): (error: unknown) => never {
  return (error) => {
    if (path === null || !(error instanceof SourceError) || named.has(error.code)) throw error
    const problem = `The submodule ${path} cannot be fetched: ${error.problem}`
    throw new SourceError(error.code, problem, advice[error.code] ?? 'Check its address in .gitmodules.')
  }
}
