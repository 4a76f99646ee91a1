import { DeploymentError } from '../deployments/state/failure.ts'
import type { GitResult } from './git.ts'
import type { GitSource } from './git-url.ts'

const missing = /couldn't find remote ref|not our ref|unadvertised object|no such remote ref/i
const refused = /could not read Username|Authentication failed|Permission denied|error: 40[134]|repository .*not found/i
const redirected = /redirect|error: 30\d/i
const unreachable =
  /Could not resolve|Failed to connect|Couldn't connect|Connection (refused|timed out|reset)|Could not read from remote|unable to access|does not appear to be a git repository|not found/i

/** Whether the remote, or the way to it, is what a fetch failed by: it would fail again. */
export function isRemotesAnswer({ stderr }: GitResult): boolean {
  return [missing, refused, redirected, unreachable].some((pattern) => pattern.test(stderr))
}

/** What the owner is told when `what`, a reference or the hash of a commit, could not be fetched. */
export function fetchError(result: GitResult, source: GitSource, what: string): DeploymentError {
  const error = (code: string, message: string) => new DeploymentError('fetch', code, message)
  if (missing.test(result.stderr)) {
    const branch = /^refs\/heads\/(.+)$/.exec(what)?.[1]
    if (branch !== undefined) {
      return error('unknown_branch', `${source.url} has no branch ${branch}. Check branch.`)
    }
    return error('unknown_commit', `${source.url} has no commit ${what}, or does not give it out. Check commit.`)
  }
  if (refused.test(result.stderr)) {
    return error(
      'repository_refused',
      `${source.url} does not exist or cannot be read with the credentials given. Check git_url and git_token.`,
    )
  }
  return error(
    'repository_unreachable',
    redirected.test(result.stderr)
      ? `${source.url} redirects elsewhere, which is not followed. Use the address that it leads to.`
      : `${source.url} cannot be fetched (${lastLine(result)}). Check git_url, and that the server reaches that host.`,
  )
}

/** What the owner is told of a hash that is something else; `commit` is what it stands for, or empty. */
export function notCommit(source: GitSource, hash: string, commit: string): DeploymentError {
  const advice = /^[0-9a-f]+$/.test(commit) ? `is a tag of the commit ${commit}. Give that one.` : 'is no commit.'
  return new DeploymentError('fetch', 'unknown_commit', `In ${source.url} ${hash} ${advice}`)
}

/** Gives the result; rejects with a `DeploymentError` when git's own work on files failed. */
export async function succeed(running: Promise<GitResult>): Promise<GitResult> {
  const result = await running
  if (result.code === 0) return result
  throw new DeploymentError('fetch', 'checkout_failed', `git could not check the commit out (${lastLine(result)}).`)
}

function lastLine(result: GitResult): string {
  const lines = result.stderr.split('\n').map((line) => line.trim())
  return (
    lines.find((line) => /^(fatal|error): /.test(line)) ?? lines.findLast((line) => line !== '') ?? 'no reason given'
  )
}
