import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import type { Outbound } from '../platform/outbound.ts'
import {
  type CheckOutOptions,
  type CommitInfo,
  checkOut,
  checkOutUploaded,
  isEmptyFolderIn,
  type PinnedSubmodule,
  type UploadedPack,
} from './check-out.ts'
import { fetchError, notCommit, succeed } from './fetch-errors.ts'
import type { Git, GitResult } from './git.ts'
import type { CacheFolder, GitCache } from './git-cache.ts'
import type { FileRule } from './local-repository.ts'
import { connect, noCredentials, type Remote, type RepositoryCredentials } from './remote.ts'
import { namingSubmodule, SourceError } from './source-error.ts'
import type { HostKeys } from './ssh.ts'
import { submoduleUrl } from './submodules.ts'

export type { CommitInfo } from './check-out.ts'
export { sameRepository } from './git-url.ts'
export type { FileRule } from './local-repository.ts'
export { SourceError } from './source-error.ts'

export type GitAccess = Pick<FetchRequest, 'credentials' | 'hostKeys'>

/** Fetches commits, through caches that return no commit that the remote would refuse. */
export interface Sources {
  /**
   * Fetches one commit with its submodules, without history, into the request's directory. Rejects with a `SourceError`
   * that says what is wrong with the repository, or with the signal's reason.
   */
  fetch(request: FetchRequest, signal: AbortSignal): Promise<FetchedSource>
  /** Writes the files of an uploaded source into the request's directory, like `fetch`. */
  fetchUploaded(request: UploadRequest, signal: AbortSignal): Promise<CommitInfo | null>
  /** Returns the bytes of a project's caches. Stops counting above `enough` and returns the number so far. */
  cacheSize(projectId: string, enough?: number): Promise<number>
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

interface FetchDependencies {
  readonly git: Git
  readonly cache: GitCache
  readonly outbound: Outbound
  readonly checkOut: CheckOutOptions
}

export interface FetchRequest {
  readonly projectId: string
  readonly gitUrl: string
  readonly branch: string | null
  /** The full hash of the commit; null for the tip of the branch. */
  readonly commit: string | null
  readonly credentials: RepositoryCredentials
  readonly hostKeys: HostKeys
  readonly files: FileRule
  readonly useAgent: boolean
  readonly directory: string
}

export interface UploadRequest extends Pick<FetchRequest, 'projectId' | 'files' | 'directory' | 'hostKeys'> {
  readonly pack: UploadedPack
}

export interface FetchedSource {
  /** Null when a commit was requested without a branch. */
  readonly branch: string | null
  readonly commit: string
  readonly info: CommitInfo | null
}

/** Limits on submodules: a repository with more is a mistake or an attack. */
const deepest = 8
const mostSubmodules = 100

export async function fetchSource(
  dependencies: FetchDependencies,
  request: FetchRequest,
  signal: AbortSignal,
): Promise<FetchedSource> {
  const { projectId, files, useAgent, hostKeys } = request
  const remote = await connect(dependencies, request, signal)
  try {
    const context: FetchContext = {
      ...dependencies,
      projectId,
      files: remote.source.protocol === 'file' ? files : noFiles(files),
      useAgent,
      hostKeys,
      budget: { submodules: mostSubmodules },
      signal,
    }
    const tree = { directory: request.directory, depth: 0, submodule: null }
    const { branch, commit: hash } = request
    if (branch === null && hash === null) return await fetchTree(context, remote, { ...tree, ref: null, hash: null })
    const ref = await findRef(remote, branch, hash)
    const { commit, info } = await fetchTree(context, remote, { ...tree, ref, hash })
    return { branch, commit, info }
  } finally {
    await remote.close()
  }
}

async function fetchUploaded(
  dependencies: FetchDependencies,
  request: UploadRequest,
  signal: AbortSignal,
): Promise<CommitInfo | null> {
  const { projectId, files, directory, hostKeys } = request
  const { submodules, info } = await checkOutUploaded(dependencies, request, signal)
  const budget = { submodules: mostSubmodules }
  const context = { ...dependencies, projectId, files: noFiles(files), useAgent: false, hostKeys, budget, signal }
  for (const submodule of submodules) await fetchSubmodule(context, nowhere, { directory, depth: 0 }, submodule)
  return info
}

/**
 * Returns the reference whose tip is this commit, if there is one. Always asks the remote: a commit that only the cache
 * still has must not be found.
 */
async function findRef(remote: Remote, branch: string | null, commit: string | null): Promise<string | null> {
  const tip = branch === null ? 'HEAD' : headOf(branch)
  return commit === null || (await remote.tipOf(tip)) === commit ? tip : null
}

const headOf = (branch: string): string => `refs/heads/${branch}`

interface FetchContext extends FetchDependencies, Pick<FetchRequest, 'projectId' | 'files' | 'useAgent' | 'hostKeys'> {
  /** Shared by all submodules of the repository. */
  readonly budget: { submodules: number }
  readonly signal: AbortSignal
}

interface Tree extends Revision {
  readonly directory: string
  readonly depth: number
  readonly submodule: string | null
}

/**
 * Fetches and checks out a tree with its submodules. The result has the information in the commit only for the
 * repository itself, and the branch only if it is the default branch.
 */
async function fetchTree(context: FetchContext, remote: Remote, tree: Tree): Promise<FetchedSource> {
  const { git, cache, projectId, signal } = context
  const cached = { url: remote.source.url, format: tree.hash?.length === 64 ? 'sha256' : 'sha1' } as const
  const fetched = cache.use(projectId, cached, signal, (given) =>
    withEmptyAfterDamage(given, remote, async (folder) => {
      const isNamed = tree.ref !== null || tree.hash !== null
      const into = (revision: Revision) => fetchInto(git, folder, remote, revision, signal)
      const source = isNamed ? { branch: null, commit: await into(tree) } : await fetchDefaultBranch(remote, into)
      const { submodules, info } = await checkOut(git, folder, source.commit, tree.directory, {
        ...context.checkOut,
        signal,
      })
      return { source: { ...source, info }, submodules }
    }),
  )
  const { source, submodules } = await fetched.catch(namingSubmodule(tree.submodule))
  const parent = { url: remote.source.url, credentialsFor: remote.credentialsFor }
  for (const submodule of submodules) await fetchSubmodule(context, parent, tree, submodule)
  return source
}

/**
 * Runs `work` with a cache. Repeats it with an empty cache if the first attempt failed and the remote still answers.
 * Git prints the same message for a damaged cache and a damaged remote.
 */
async function withEmptyAfterDamage<T>(
  folder: CacheFolder,
  remote: Remote,
  work: (folder: CacheFolder) => Promise<T>,
): Promise<T> {
  try {
    return await work(folder)
  } catch (error) {
    if (!folder.used || !(error instanceof SourceError) || !ofEitherSide.has(error.code)) throw error
    if (error.code !== 'checkout_failed' && !(await remote.answers())) throw error
    await folder.clear()
    return work({ ...folder, used: false })
  }
}

/** A damaged cache can cause these failures, too. */
const ofEitherSide = new Set(['repository_unreachable', 'repository_refused', 'checkout_failed'])

/** Fetches the tip of the default branch and asks for the branch's name at the same time. */
async function fetchDefaultBranch(
  remote: Remote,
  into: (revision: Revision) => Promise<string>,
): Promise<{ branch: string; commit: string }> {
  const [asked, fetched] = await Promise.allSettled([remote.defaultBranch(), into({ ref: 'HEAD', hash: null })])
  // If both failed, the error of the question explains more.
  if (asked.status === 'rejected') throw asked.reason
  if (fetched.status === 'rejected') throw fetched.reason
  const { name: branch, commit } = asked.value
  if (fetched.value === commit) return { branch, commit }
  // The branch moved, or another branch became the default.
  return { branch, commit: await into({ ref: headOf(branch), hash: null }) }
}

/** A remote repository must not name a repository on this machine as its submodule. */
const noFiles = (files: FileRule): FileRule => ({ ...files, everywhere: false, below: [] })

interface Parent extends Pick<Remote, 'credentialsFor'> {
  /** The address of the parent; null for an uploaded source. */
  readonly url: string | null
}

const nowhere: Parent = { url: null, credentialsFor: () => noCredentials }

async function fetchSubmodule(
  context: FetchContext,
  parent: Parent,
  within: Pick<Tree, 'directory' | 'depth'>,
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
    throw new SourceError('submodule_refused', `The submodule ${path} does not lie in a separate folder.`)
  }
  const gitUrl = submoduleUrl(parent.url, url)
  if (gitUrl === null) {
    throw new SourceError(
      'submodule_refused',
      `The address of the submodule ${path} is relative to the address of its repository, which an uploaded source does not ` +
        'have. Give its full address in .gitmodules.',
    )
  }
  const { files, useAgent, hostKeys, signal } = context
  const credentials = parent.credentialsFor(gitUrl)
  const request = { gitUrl, credentials, files, useAgent, hostKeys, submodule: path }
  const remote = await connect(context, request, signal).catch(namingSubmodule(path))
  try {
    const below = remote.source.protocol === 'file' ? context : { ...context, files: noFiles(files) }
    await fetchTree(below, remote, { ref: null, hash, directory, depth: within.depth + 1, submodule: path })
  } finally {
    await remote.close()
  }
}

interface Revision {
  readonly ref: string | null
  readonly hash: string | null
}

/** Refers to the last fetched commit, so that the next fetch downloads less. */
const kept = 'refs/fairlead/last'

async function fetchInto(
  git: Git,
  cache: CacheFolder,
  remote: Remote,
  revision: Revision,
  signal: AbortSignal,
): Promise<string> {
  const { ref, hash } = revision
  const fetched = await fetchOnce(cache, remote, revision)
  if (fetched.code !== 0) throw fetchError(fetched, remote.source, ref ?? hash ?? '')
  const parse = [`--git-dir=${cache.path}`, 'rev-parse', `${kept}^{commit}`]
  const parsed = () => git.run(parse, { writable: [cache.path], signal })
  if (ref === null && hash !== null) {
    // The hash may belong to a tag of a commit, or to files.
    const { stdout } = await parsed()
    if (stdout.trim() !== hash) throw notCommit(remote.source, hash, stdout.trim())
    return hash
  }
  // A branch names a commit. The reference's file contains its hash, so no further process is needed.
  const commit = (await hashIn(join(cache.path, kept))) ?? (await succeed(parsed())).stdout.trim()
  if (hash !== null && commit !== hash) {
    // The branch moved after the question for its tip.
    return fetchInto(git, cache, remote, { ref: null, hash }, signal)
  }
  return commit
}

function fetchOnce(cache: CacheFolder, remote: Remote, { ref, hash }: Revision): Promise<GitResult> {
  // Git asks for no object that it has. `--refetch` makes it ask the remote for a commit known by its hash.
  const how = ref === null ? ['--refetch'] : []
  const what = ref ?? hash ?? ''
  const fetch = ['fetch', '--quiet', '--depth=1', '--no-tags', ...how, '--', remote.url, `+${what}:${kept}`]
  return remote.git([`--git-dir=${cache.path}`, ...fetch], [cache.path])
}

/**
 * Returns the hash in a reference's file (gitrepository-layout(5)); `null` for other content. Git's user could have put
 * anything there, so this follows no link and waits for no pipe.
 */
async function hashIn(path: string): Promise<string | null> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return null
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(longestHash + 2))
    return /^([0-9a-f]{40}|[0-9a-f]{64})\n$/.exec(buffer.toString('latin1', 0, bytesRead))?.[1] ?? null
  } catch {
    return null
  } finally {
    await file.close()
  }
}

/** A SHA-256 hash in hexadecimal digits. */
const longestHash = 64
