import { join } from 'node:path'
import type { Outbound } from '../platform/outbound.ts'
import { checkOut, isEmptyFolderIn, type PinnedSubmodule } from './check-out.ts'
import { fetchInto, type Revision } from './fetch-into.ts'
import type { Git } from './git.ts'
import type { GitCache } from './git-cache.ts'
import { connect, type Remote } from './remote.ts'
import { SourceError } from './source-error.ts'
import { submoduleUrl } from './submodules.ts'

export interface FetchDependencies {
  readonly git: Git
  readonly cache: GitCache
  readonly outbound: Outbound
  /** True in local mode alone: `file:` addresses may be fetched. */
  readonly allowFile: boolean
}

export interface FetchRequest {
  readonly projectId: string
  readonly gitUrl: string
  readonly branch: string | null
  /** The full hash of the commit; null for the tip of the branch. */
  readonly commit: string | null
  readonly token: string | null
  /** The folder that the files are written to. */
  readonly directory: string
}

export interface FetchedSource {
  /** Null when a commit was requested without a branch. */
  readonly branch: string | null
  readonly commit: string
}

/** Limits on submodules: more is a mistake, or meant to keep the server busy. */
const deepest = 8
const mostSubmodules = 100

/**
 * Fetches one commit of a repository into the request's directory, submodules included, without its history. Rejects
 * with a `SourceError` that says what the repository lacks.
 */
export async function fetchSource(
  dependencies: FetchDependencies,
  request: FetchRequest,
  signal: AbortSignal,
): Promise<FetchedSource> {
  const remote = await connect(dependencies, request, signal)
  const { branch, ref } = await findRef(remote, request)
  const context: FetchContext = {
    ...dependencies,
    projectId: request.projectId,
    budget: { submodules: mostSubmodules },
    signal,
  }
  const tree: Tree = { ref, hash: request.commit, directory: request.directory, depth: 0 }
  return { branch, commit: await fetchTree(context, remote, tree) }
}

/**
 * Finds the reference whose tip is the desired commit, if there is one. The remote is asked in any case: a commit that is
 * in the cache and no longer at the remote must not be found.
 */
async function findRef(
  remote: Remote,
  { branch, commit }: FetchRequest,
): Promise<{ branch: string | null; ref: string | null }> {
  if (commit === null) {
    const name = branch ?? (await remote.defaultBranch())
    return { branch: name, ref: `refs/heads/${name}` }
  }
  const tip = branch === null ? 'HEAD' : `refs/heads/${branch}`
  return { branch, ref: (await remote.tipOf(tip)) === commit ? tip : null }
}

interface FetchContext extends FetchDependencies {
  readonly projectId: string
  /** Counts down over all submodules of the repository. */
  readonly budget: { submodules: number }
  readonly signal: AbortSignal
}

/** A revision of a repository, to be checked out into a folder. */
interface Tree extends Revision {
  readonly directory: string
  readonly depth: number
}

/** Fetches and checks out a tree with its submodules, and returns its commit. */
async function fetchTree(context: FetchContext, remote: Remote, tree: Tree): Promise<string> {
  const { git, cache, projectId, signal } = context
  const { commit, submodules } = await cache.use(projectId, remote.source.url, signal, async (folder) => {
    const commit = await fetchInto(git, folder, remote, tree, signal)
    return { commit, submodules: await checkOut(git, folder, commit, tree.directory, signal) }
  })
  for (const submodule of submodules) await fetchSubmodule(context, remote, tree, submodule)
  return commit
}

async function fetchSubmodule(
  context: FetchContext,
  parent: Remote,
  within: Tree,
  { path, url, hash }: PinnedSubmodule,
): Promise<void> {
  context.budget.submodules -= 1
  if (context.budget.submodules < 0 || within.depth >= deepest) {
    throw new SourceError(
      'too_many_submodules',
      `The repository has more than ${mostSubmodules} submodules, or they lie deeper than ${deepest}. Remove some.`,
    )
  }
  const directory = join(within.directory, path)
  if (!(await isEmptyFolderIn(within.directory, directory))) {
    throw new SourceError('submodule_refused', `The submodule ${path} does not lie in a folder of its own.`)
  }
  const gitUrl = submoduleUrl(parent.source.url, url)
  const remote = await connect(context, { gitUrl, token: parent.tokenFor(gitUrl), submodule: path }, context.signal)
  await fetchTree(context, remote, { ref: null, hash, directory, depth: within.depth + 1 })
}
