/** The environment of the process, as the runner sets it. */
export type Environment = Readonly<Record<string, string | undefined>>

export interface Repository {
  /** The address that git clones from. */
  readonly gitUrl: string
  /** Without its owner. */
  readonly name: string
}

/** The repository that the workflow runs for; `undefined` outside of a workflow. */
export function repositoryOf(env: Environment): Repository | undefined {
  const server = env['GITHUB_SERVER_URL']?.replace(/\/+$/, '')
  const repository = env['GITHUB_REPOSITORY']
  const name = repository?.split('/')[1]
  if (!server || !repository || !name) return undefined
  return { gitUrl: `${server}/${repository}.git`, name }
}

/**
 * The branch that the workflow runs for, or why there is none. For a pull request it is the branch that the request
 * comes from: the ref of its run is a merge that exists at GitHub alone and moves with the base branch.
 */
export function branchOf(env: Environment): { readonly branch: string } | { readonly problem: string } {
  const head = env['GITHUB_HEAD_REF']
  if (head) return { branch: head }

  const ref = env['GITHUB_REF']
  const name = env['GITHUB_REF_NAME']
  if (ref?.startsWith('refs/heads/')) return { branch: ref.slice('refs/heads/'.length) }
  if (!name) return { problem: 'is missing, and this run names no branch. Set it to the branch to deploy.' }
  if (env['GITHUB_REF_TYPE'] === 'tag') {
    return { problem: `is missing, and this run is for the tag ${name}. Set it to the branch to deploy.` }
  }
  if (ref || /^\d+\/(merge|head)$/.test(name)) {
    return { problem: `is missing, and this run is for ${ref || name}, not a branch. Set it to the branch to deploy.` }
  }
  return { branch: name }
}
