import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Outbound, OutboundError } from '../../platform/outbound.ts'
import { DeploymentError } from '../failure.ts'
import type { Git, GitResult, Pin } from '../git.ts'
import { type GitSource, parseGitUrl } from '../git-source.ts'

export interface FetchDependencies {
  readonly git: Git
  readonly outbound: Outbound
  readonly allowFile: boolean
}

export interface FetchedSource {
  readonly branch: string
  readonly commit: string
}

/**
 * Brings one commit of a repository into `directory`, without its history.
 * Rejects with a `DeploymentError` of the stage `fetch` that says what the repository lacks.
 */
export async function fetchSource(
  dependencies: FetchDependencies,
  request: { readonly gitUrl: string; readonly branch: string | null; readonly directory: string },
  signal: AbortSignal,
): Promise<FetchedSource> {
  const source = parseGitUrl(request.gitUrl, dependencies)
  if ('field' in source) throw new DeploymentError('fetch', 'git_url_refused', `git_url ${source.message}.`)
  const pin = await pinnedAddress(dependencies.outbound, source)
  const git = (...args: string[]) => dependencies.git(args, { cwd: request.directory, signal, pin })

  await mkdir(request.directory, { recursive: true })
  const branch = request.branch ?? (await defaultBranch(git, source))
  await succeed(git('init', '--quiet', '--template='))
  const fetched = await git('fetch', '--quiet', '--depth=1', '--no-tags', '--', source.url, `refs/heads/${branch}`)
  if (fetched.code !== 0) throw fetchError(fetched, source, branch)
  await succeed(git('checkout', '--quiet', '--force', '--detach', 'FETCH_HEAD'))
  // Detached, so this holds the commit itself.
  const commit = (await readFile(join(request.directory, '.git', 'HEAD'), 'utf8')).trim()
  // A release is its files; what git knows besides is of no use to it and tells where it came from.
  await rm(join(request.directory, '.git'), { recursive: true, force: true })
  return { branch, commit }
}

async function pinnedAddress(outbound: Outbound, source: GitSource): Promise<Pin | undefined> {
  if (source.host === null || source.port === null || outbound.mode === 'any') return undefined
  try {
    const [first] = await outbound.resolve(source.host)
    if (first === undefined) throw new Error('no address')
    return { host: source.host, port: source.port, address: first.address }
  } catch (error) {
    if (error instanceof OutboundError) throw new DeploymentError('fetch', error.code, error.message)
    throw new DeploymentError('fetch', 'repository_unreachable', `The host ${source.host} of git_url cannot be found.`)
  }
}

async function defaultBranch(git: (...args: string[]) => Promise<GitResult>, source: GitSource): Promise<string> {
  const listed = await git('ls-remote', '--symref', '--', source.url, 'HEAD')
  if (listed.code !== 0) throw fetchError(listed, source, 'HEAD')
  const branch = /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(listed.stdout)?.[1]
  if (branch === undefined) {
    throw new DeploymentError(
      'fetch',
      'no_default_branch',
      `${source.url} has no default branch; it may be empty. Push a commit, or name the branch.`,
    )
  }
  return branch
}

async function succeed(running: Promise<GitResult>): Promise<void> {
  const result = await running
  if (result.code !== 0) {
    throw new DeploymentError('fetch', 'checkout_failed', `git could not check the commit out (${lastLine(result)}).`)
  }
}

function fetchError(result: GitResult, source: GitSource, branch: string): DeploymentError {
  if (/couldn't find remote ref/i.test(result.stderr)) {
    return new DeploymentError('fetch', 'unknown_branch', `${source.url} has no branch ${branch}. Check branch.`)
  }
  if (/could not read Username|Authentication failed|Permission denied|error: 40[13]/i.test(result.stderr)) {
    return new DeploymentError(
      'fetch',
      'repository_refused',
      `${source.url} does not exist or cannot be read without credentials. Check git_url.`,
    )
  }
  return new DeploymentError(
    'fetch',
    'repository_unreachable',
    `${source.url} cannot be fetched (${lastLine(result)}). Check git_url, and that the server reaches that host.`,
  )
}

function lastLine(result: GitResult): string {
  const lines = result.stderr.split('\n').map((line) => line.trim())
  return (
    lines.find((line) => /^(fatal|error): /.test(line)) ?? lines.findLast((line) => line !== '') ?? 'no reason given'
  )
}
