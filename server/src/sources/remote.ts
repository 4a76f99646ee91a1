import type { Outbound } from '../platform/outbound.ts'
import { OutboundError } from '../platform/outbound.ts'
import { fetchError } from './fetch-errors.ts'
import type { Credentials, Git, GitResult, Pin } from './git.ts'
import { type GitSource, parseGitUrl } from './git-url.ts'
import { SourceError } from './source-error.ts'

/** A remote repository, with the address that its host resolved to and the credentials for it. */
export interface Remote {
  readonly source: GitSource
  /** Runs git with the connection's settings. */
  git(args: readonly string[], cwd: string): Promise<GitResult>
  defaultBranch(): Promise<string>
  /** Returns the commit that a reference of the remote names; null when it has no such reference. */
  tipOf(ref: string): Promise<string | null>
  /** Returns the token for addresses of the very same origin, and null for others. */
  tokenFor(url: string): string | null
}

export interface RemoteDependencies {
  readonly git: Git
  readonly outbound: Outbound
  readonly allowFile: boolean
}

/** Reads the address and checks the host that it leads to. Rejects with a `SourceError`. */
export async function connect(
  dependencies: RemoteDependencies,
  request: { readonly gitUrl: string; readonly token: string | null; readonly submodule?: string },
  signal: AbortSignal,
): Promise<Remote> {
  const source = parseGitUrl(request.gitUrl, dependencies)
  if ('field' in source) {
    if (request.submodule === undefined) {
      throw new SourceError('git_url_refused', `git_url ${source.message}.`)
    }
    const message = `The address of the submodule ${request.submodule} ${source.message}.`
    throw new SourceError('submodule_refused', message)
  }
  const pin = await pinnedAddress(dependencies.outbound, source)
  const credentials = credentialsFor(source, request.token)
  const git = (args: readonly string[], cwd: string) => dependencies.git(args, { cwd, signal, pin, credentials })
  // Run outside of any repository: `ls-remote` needs none.
  const list = (...args: string[]) => git(['ls-remote', ...args], '/')

  return {
    source,
    git,

    async defaultBranch() {
      const listed = await list('--symref', '--', source.url, 'HEAD')
      if (listed.code !== 0) throw fetchError(listed, source, 'HEAD')
      const branch = /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(listed.stdout)?.[1]
      if (branch !== undefined) return branch
      throw new SourceError(
        'no_default_branch',
        `${source.url} has no default branch; it may be empty. Push a commit, or name the branch.`,
      )
    },

    async tipOf(ref) {
      const listed = await list('--', source.url, ref)
      if (listed.code !== 0) throw fetchError(listed, source, ref)
      const lines = listed.stdout.split('\n').map((line) => line.split('\t'))
      return lines.find(([, name]) => name === ref)?.[0] ?? null
    },

    tokenFor(url) {
      const other = parseGitUrl(url, dependencies)
      return !('field' in other) && originOf(other) === originOf(source) ? request.token : null
    },
  }
}

/** True when a token can be sent with an address: over https, and in local mode over http, too. */
export function takesToken(source: GitSource, options: { readonly allowHttp: boolean }): boolean {
  return source.protocol === 'https' || (source.protocol === 'http' && options.allowHttp)
}

function credentialsFor(source: GitSource, token: string | null): Credentials | undefined {
  const origin = originOf(source)
  return token === null || origin === null ? undefined : { origin, token }
}

function originOf({ protocol, url }: GitSource): string | null {
  return protocol === 'https' || protocol === 'http' ? new URL(url).origin : null
}

async function pinnedAddress(outbound: Outbound, source: GitSource): Promise<Pin | undefined> {
  if (source.host === null || source.port === null || outbound.mode === 'any') return undefined
  try {
    const [first] = await outbound.resolve(source.host)
    if (first === undefined) throw new Error('no address')
    return { host: source.host, port: source.port, address: first.address }
  } catch (error) {
    if (error instanceof OutboundError) throw new SourceError(error.code, error.message)
    throw new SourceError('repository_unreachable', `The host ${source.host} of git_url cannot be found.`)
  }
}
