import { fetchError, isRemoteFailure, notCommit, succeed } from './fetch-errors.ts'
import type { Git } from './git.ts'
import type { CacheFolder } from './git-cache.ts'
import type { Remote } from './remote.ts'

/** A commit to fetch: by a reference of the remote, by its hash, or both. */
export interface Revision {
  readonly ref: string | null
  readonly hash: string | null
}

/** The reference in a cache that keeps the last fetched commit, which the next fetch can build on. */
const kept = 'refs/fairlead/last'

/** Fetches a commit into a cache and returns its hash. */
export async function fetchInto(
  git: Git,
  cache: CacheFolder,
  remote: Remote,
  revision: Revision,
  signal: AbortSignal,
): Promise<string> {
  const { ref, hash } = revision
  let fetched = await fetchOnce(git, cache, remote, revision, signal, { isNew: !cache.used })
  // A server that was killed leaves locks and half a pack. Nothing in a cache is worth a failure.
  if (fetched.code !== 0 && cache.used && !isRemoteFailure(fetched)) {
    await cache.clear()
    fetched = await fetchOnce(git, cache, remote, revision, signal, { isNew: true })
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
    return fetchInto(git, { ...cache, used: true }, remote, { ref: null, hash }, signal)
  }
  return commit
}

async function fetchOnce(
  git: Git,
  cache: CacheFolder,
  remote: Remote,
  { ref, hash }: Revision,
  signal: AbortSignal,
  { isNew }: { readonly isNew: boolean },
) {
  const format = `--object-format=${hash?.length === 64 ? 'sha256' : 'sha1'}`
  const making = git(['init', '--quiet', '--bare', '--template=', format], { cwd: cache.path, signal })
  const made = await (isNew ? succeed(making) : making)
  if (made.code !== 0) return made
  // Git skips objects that it has, so a commit requested by its hash needs `--refetch` to make git ask the remote.
  const how = ref === null ? ['--refetch'] : []
  const what = ref ?? hash ?? ''
  const args = ['fetch', '--quiet', '--depth=1', '--no-tags', ...how, '--', remote.source.url, `+${what}:${kept}`]
  return remote.git(args, cache.path)
}
