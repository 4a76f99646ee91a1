import { lstat, mkdir, readdir, realpath, rm, writeFile } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { DeploymentError } from '../deployments/state/failure.ts'
import type { Outbound } from '../platform/outbound.ts'
import { fetchError, isRemotesAnswer, notCommit, succeed } from './fetch-errors.ts'
import type { Git, GitResult } from './git.ts'
import type { CacheFolder, GitCache } from './git-cache.ts'
import { connect, type Remote } from './remote.ts'
import { parseGitmodules, type Submodule, submoduleUrl } from './submodules.ts'

export interface FetchDependencies {
  readonly git: Git
  readonly gitCache: GitCache
  readonly outbound: Outbound
  readonly allowFile: boolean
}

export interface FetchRequest {
  readonly projectId: string
  readonly gitUrl: string
  readonly branch: string | null
  /** The full hash of the commit; `null` for the tip of the branch. */
  readonly commit: string | null
  readonly token: string | null
  readonly directory: string
}

export interface FetchedSource {
  readonly branch: string | null
  readonly commit: string
}

/** Submodules of submodules, and all of them together: more is a mistake, or meant to keep us busy. */
const deepest = 8
const mostSubmodules = 100

/**
 * Brings one commit of a repository into `directory`, submodules included, without its history.
 * Rejects with a `DeploymentError` of the stage `fetch` that says what the repository lacks.
 */
export async function fetchSource(
  dependencies: FetchDependencies,
  request: FetchRequest,
  signal: AbortSignal,
): Promise<FetchedSource> {
  const remote = await connect(dependencies, request, signal)
  const { branch, ref } = await wantedRef(remote, request)
  const budget = { submodules: mostSubmodules }
  const commit = await bringTree({ ...dependencies, projectId: request.projectId, budget }, remote, signal, {
    ref,
    hash: request.commit,
    directory: request.directory,
    depth: 0,
  })
  return { branch, commit }
}

/**
 * The reference whose tip is wanted, if there is one. The remote is asked for it in any case: a commit that is in our
 * cache and no longer there must not be found.
 */
async function wantedRef(
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

interface Bringing extends FetchDependencies {
  readonly projectId: string
  readonly budget: { submodules: number }
}

interface Wanted {
  readonly ref: string | null
  readonly hash: string | null
  readonly directory: string
  readonly depth: number
}

/** Gives the commit that is in `directory` now. */
async function bringTree(bringing: Bringing, remote: Remote, signal: AbortSignal, wanted: Wanted): Promise<string> {
  const { commit, submodules } = await bringing.gitCache.use(
    bringing.projectId,
    remote.source.url,
    signal,
    async (cache) => {
      const commit = await fetchInto(bringing.git, cache, remote, wanted, signal)
      return { commit, submodules: await checkOut(bringing.git, cache, commit, wanted.directory, signal) }
    },
  )
  for (const submodule of submodules) await bringSubmodule(bringing, remote, signal, wanted, submodule)
  return commit
}

/** Fetches into the cache and gives the commit. */
async function fetchInto(
  git: Git,
  cache: CacheFolder,
  remote: Remote,
  { ref, hash }: Wanted,
  signal: AbortSignal,
): Promise<string> {
  const fetch = async ({ isNew }: { isNew: boolean }) => {
    const format = `--object-format=${hash?.length === 64 ? 'sha256' : 'sha1'}`
    const making = git(['init', '--quiet', '--bare', '--template=', format], { cwd: cache.path, signal })
    const made = await (isNew ? succeed(making) : making)
    if (made.code !== 0) return made
    // By its hash, a commit that is here already would not be asked for: `--refetch` asks.
    const how = ref === null ? ['--refetch'] : []
    const what = ref ?? hash ?? ''
    const args = ['fetch', '--quiet', '--depth=1', '--no-tags', ...how, '--', remote.source.url, `+${what}:${kept}`]
    return remote.git(args, cache.path)
  }
  let fetched = await fetch({ isNew: !cache.used })
  // A server that was killed leaves locks and half a pack. Nothing in a cache is worth a failure.
  if (fetched.code !== 0 && cache.used && !isRemotesAnswer(fetched)) {
    await cache.clear()
    fetched = await fetch({ isNew: true })
  }
  if (fetched.code !== 0) throw fetchError(fetched, remote.source, ref ?? hash ?? '')
  const parsed = git(['rev-parse', `${kept}^{commit}`], { cwd: cache.path, signal })
  if (ref === null && hash !== null) {
    // The hash may be that of a tag, which stands for a commit, or of files.
    const { stdout } = await parsed
    if (stdout.trim() !== hash) throw notCommit(remote.source, hash, stdout.trim())
    return hash
  }
  const commit = (await succeed(parsed)).stdout.trim()
  if (hash !== null && commit !== hash) {
    // The branch moved between the question and the fetch.
    return fetchInto(git, { ...cache, used: true }, remote, { ref: null, hash, directory: '', depth: 0 }, signal)
  }
  return commit
}

/** What was fetched last: it is what the next fetch can build on. */
const kept = 'refs/fairlead/last'

/** Writes the files of a commit, and gives the submodules that it has. */
async function checkOut(
  git: Git,
  cache: CacheFolder,
  commit: string,
  directory: string,
  signal: AbortSignal,
): Promise<PinnedSubmodule[]> {
  await mkdir(directory, { recursive: true })
  const run = (...args: string[]): Promise<GitResult> => git(args, { cwd: directory, signal })
  const format = commit.length === 64 ? 'sha256' : 'sha1'
  await succeed(run('init', '--quiet', '--template=', `--object-format=${format}`))
  await mkdir(join(directory, '.git', 'objects', 'info'), { recursive: true })
  await writeFile(join(directory, '.git', 'objects', 'info', 'alternates'), `${join(cache.path, 'objects')}\n`)
  await succeed(run('checkout', '--quiet', '--force', '--detach', commit))
  const listed = await run('config', '--blob', `${commit}:.gitmodules`, '--list', '-z')
  const submodules: PinnedSubmodule[] = []
  for (const submodule of listed.code === 0 ? parseGitmodules(listed.stdout) : []) {
    const entry = await run('ls-tree', '-z', '--full-tree', commit, '--', submodule.path)
    const hash = /^160000 commit ([0-9a-f]+)\t/.exec(entry.stdout)?.[1]
    // Named in the file alone, it is none.
    if (hash !== undefined) submodules.push({ ...submodule, hash })
  }
  // A release is its files; what git knows besides is of no use to it and tells where it came from.
  await rm(join(directory, '.git'), { recursive: true, force: true })
  return submodules
}

interface PinnedSubmodule extends Submodule {
  readonly hash: string
}

async function bringSubmodule(
  bringing: Bringing,
  parent: Remote,
  signal: AbortSignal,
  within: Wanted,
  { path, url, hash }: PinnedSubmodule,
): Promise<void> {
  bringing.budget.submodules -= 1
  if (bringing.budget.submodules < 0 || within.depth >= deepest) {
    throw new DeploymentError(
      'fetch',
      'too_many_submodules',
      `The repository has more than ${mostSubmodules} submodules, or they lie deeper than ${deepest}. Remove some.`,
    )
  }
  const directory = join(within.directory, path)
  if (!(await isEmptyFolderIn(within.directory, directory))) {
    throw new DeploymentError(
      'fetch',
      'submodule_refused',
      `The submodule ${path} does not lie in a folder of its own.`,
    )
  }
  const gitUrl = submoduleUrl(parent.source.url, url)
  const remote = await connect(bringing, { gitUrl, token: parent.tokenFor(gitUrl), submodule: path }, signal)
  await bringTree(bringing, remote, signal, { ref: null, hash, directory, depth: within.depth + 1 })
}

/** git makes an empty folder in place of a submodule; anything else there is somebody's trick. */
async function isEmptyFolderIn(root: string, path: string): Promise<boolean> {
  const stats = await lstat(path).catch(() => undefined)
  if (stats?.isDirectory() !== true || !(await realpath(path)).startsWith((await realpath(root)) + sep)) return false
  return (await readdir(path)).length === 0
}
