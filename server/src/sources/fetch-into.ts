import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { fetchError, notCommit, succeed } from './fetch-errors.ts'
import type { Git, GitResult } from './git.ts'
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
  const fetched = await fetchOnce(cache, remote, revision)
  if (fetched.code !== 0) throw fetchError(fetched, remote.source, ref ?? hash ?? '')
  const parse = [`--git-dir=${cache.path}`, 'rev-parse', `${kept}^{commit}`]
  const parsed = () => git.run(parse, { writable: [cache.path], signal })
  if (ref === null && hash !== null) {
    // The hash may be that of a tag, which stands for a commit, or of files.
    const { stdout } = await parsed()
    if (stdout.trim() !== hash) throw notCommit(remote.source, hash, stdout.trim())
    return hash
  }
  // A branch names a commit, which the file of the reference tells without another process.
  const commit = (await hashIn(join(cache.path, kept))) ?? (await succeed(parsed())).stdout.trim()
  if (hash !== null && commit !== hash) {
    // The branch moved between the question and the fetch.
    return fetchInto(git, cache, remote, { ref: null, hash }, signal)
  }
  return commit
}

function fetchOnce(cache: CacheFolder, remote: Remote, { ref, hash }: Revision): Promise<GitResult> {
  // Git skips objects that it has, so a commit requested by its hash needs `--refetch` to make git ask the remote.
  const how = ref === null ? ['--refetch'] : []
  const what = ref ?? hash ?? ''
  const fetch = ['fetch', '--quiet', '--depth=1', '--no-tags', ...how, '--', remote.url, `+${what}:${kept}`]
  return remote.git([`--git-dir=${cache.path}`, ...fetch], [cache.path])
}

/**
 * Returns the hash in the file of a reference (gitrepository-layout(5)); `null` when it has something else. Git's own user
 * could have put anything there: a link is not followed, and a pipe is not waited for.
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

/** Of SHA-256 in hexadecimal digits. */
const longestHash = 64
