import type { GitResult } from './git.ts'
import type { GitSource } from './git-url.ts'
import { SourceError } from './source-error.ts'

const missing = /couldn't find remote ref|not our ref|unadvertised object|no such remote ref/i
const refused = /could not read Username|Authentication failed|Permission denied|error: 40[134]|repository .*not found/i
const redirected = /redirect|error: 30\d/i
const unreachable =
  /Could not resolve|Failed to connect|Couldn't connect|Connection (refused|timed out|reset)|Could not read from remote|unable to access|does not appear to be a git repository|not found/i

/** True when the remote, or the way to it, made a fetch fail: another try would fail, too. */
export function isRemoteFailure({ stderr }: GitResult): boolean {
  return [missing, refused, redirected, unreachable].some((pattern) => pattern.test(stderr))
}

/** Returns the error for a reference or a commit's hash, `what`, that could not be fetched. */
export function fetchError(result: GitResult, source: GitSource, what: string): SourceError {
  const error = (code: string, message: string) => new SourceError(code, message)
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

/** Returns the error for a hash that is no commit's; `commit` is the commit that it stands for, or empty. */
export function notCommit(source: GitSource, hash: string, commit: string): SourceError {
  const advice = /^[0-9a-f]+$/.test(commit) ? `is a tag of the commit ${commit}. Give that one.` : 'is no commit.'
  return new SourceError('unknown_commit', `In ${source.url} ${hash} ${advice}`)
}

/** Resolves with the result; rejects with a `SourceError` when git failed on this machine's files. */
export async function succeed(running: Promise<GitResult>): Promise<GitResult> {
  const result = await running
  if (result.code === 0) return result
  throw new SourceError('checkout_failed', `git could not check the commit out (${lastLine(result)}).`)
}

function lastLine(result: GitResult): string {
  const lines = result.stderr.split('\n').map((line) => line.trim())
  return (
    lines.find((line) => /^(fatal|error): /.test(line)) ?? lines.findLast((line) => line !== '') ?? 'no reason given'
  )
}
