import { once } from 'node:events'
import { connect as connectSocket } from 'node:net'
import { type Outbound, OutboundError } from '../platform/outbound.ts'
import { fetchError } from './fetch-errors.ts'
import type { Credentials, Git, GitResult, Pin, SshRemote } from './git.ts'
import { type GitSource, parseGitUrl } from './git-url.ts'
import { allowsFiles, type FileRule, openRepository } from './local-repository.ts'
import { SourceError } from './source-error.ts'
import type { DeployKey, HostKeys } from './ssh.ts'

/** A remote repository, with its resolved address and its credentials. */
export interface Remote {
  readonly source: GitSource
  readonly url: string
  /** Runs git with the connection's settings and writable folders; `onOutput` as in `GitRun`. */
  git(args: readonly string[], writable: readonly string[], onOutput?: (chunk: Buffer) => void): Promise<GitResult>
  /** Returns the name of the default branch and the commit at its tip. */
  defaultBranch(): Promise<{ readonly name: string; readonly commit: string }>
  /** Returns the commit of a remote reference; null when the reference does not exist. */
  tipOf(ref: string): Promise<string | null>
  /** True when the remote can list a reference. Does not use the cache. */
  answers(): Promise<boolean>
  /** Returns no credentials for an address of another origin. */
  credentialsFor(url: string): RepositoryCredentials
  close(): Promise<void>
}

export interface RepositoryCredentials {
  /** A token, or `user:password`, for https. */
  readonly token: string | null
  readonly sshKey: DeployKey | null
}

export const noCredentials: RepositoryCredentials = { token: null, sshKey: null }

export interface RemoteDependencies {
  readonly git: Git
  readonly outbound: Outbound
}

export interface RemoteRequest {
  readonly gitUrl: string
  readonly credentials: RepositoryCredentials
  readonly hostKeys: HostKeys
  readonly files: FileRule
  readonly useAgent: boolean
  readonly submodule?: string
}

/** Parses the address and checks its host or folder. Rejects with a `SourceError`. */
export async function connect(
  dependencies: RemoteDependencies,
  request: RemoteRequest,
  signal: AbortSignal,
): Promise<Remote> {
  const allowFile = allowsFiles(request.files)
  const source = parseGitUrl(request.gitUrl, { allowFile })
  if ('field' in source) throw refused(request, source.message)
  const pin = await pinnedAddresses(dependencies.outbound, source, signal)
  const opened = source.protocol === 'file' ? await openRepository(source, request.files) : null
  if (typeof opened === 'string') throw refused(request, opened)
  const { credentials } = request
  const access = { pin, credentials: credentialsFor(source, credentials.token), opened, ssh: sshOf(source, request) }
  const git: Remote['git'] = (args, writable, onOutput) =>
    dependencies.git.run(args, { writable, signal, remote: access, ...(onOutput !== undefined && { onOutput }) })
  const url = opened === null ? source.url : dependencies.git.urlOf(opened)
  /** Returns the remote's answer for one exact reference: git lists all references that end like it. */
  const list = async (ref: string, ...options: string[]) => {
    const lines = createLineFilter(Buffer.from(`\t${ref}`).toString('latin1'))
    const { code, ...result } = await git(['ls-remote', ...options, '--', url, ref], [], lines.read)
    if (code !== 0) throw fetchError({ ...result, code }, source, ref)
    return lines.kept
  }

  return {
    source,
    url,
    git,
    close: async () => opened?.folder.close(),

    async defaultBranch() {
      const listed = (await list('HEAD', '--symref')).join('\n')
      const name = /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(listed)?.[1]
      const commit = /^([0-9a-f]+)\tHEAD$/m.exec(listed)?.[1]
      if (name !== undefined && commit !== undefined) return { name, commit }
      throw new SourceError(
        'no_default_branch',
        `${source.url} has no default branch; it may be empty. Push a commit, or name the branch.`,
      )
    },

    async tipOf(ref) {
      const [line] = await list(ref)
      return line?.split('\t')[0] ?? null
    },

    answers: () =>
      list('HEAD').then(
        () => true,
        (error: unknown) => {
          if (error instanceof SourceError) return false
          throw error
        },
      ),

    credentialsFor(address) {
      const other = parseGitUrl(address, { allowFile })
      return !('field' in other) && originOf(other) === originOf(source) ? credentials : noCredentials
    },
  }
}

const mostLine = 10_000
const mostLines = 2

/**
 * Keeps only the first lines with this ending, because the output can have any length. Each character stands for a
 * byte.
 */
function createLineFilter(end: string) {
  const kept: string[] = []
  let rest = ''
  return {
    kept,
    read(chunk: Buffer): void {
      const lines = (rest + chunk.toString('latin1')).split('\n')
      rest = lines.pop()?.slice(0, mostLine) ?? ''
      for (const line of lines) {
        if (kept.length < mostLines && line.endsWith(end)) kept.push(Buffer.from(line, 'latin1').toString())
      }
    },
  }
}

function refused({ submodule }: RemoteRequest, problem: string): SourceError {
  if (submodule === undefined) return new SourceError('git_url_refused', `git_url ${problem}.`)
  return new SourceError('submodule_refused', `The address of the submodule ${submodule} ${problem}.`)
}

/** Tokens are sent over https only, in local mode also over http. */
export function takesToken(source: GitSource, options: { readonly allowHttp: boolean }): boolean {
  return source.protocol === 'https' || (source.protocol === 'http' && options.allowHttp)
}

function credentialsFor(source: GitSource, token: string | null): Credentials | undefined {
  const origin = source.protocol === 'ssh' ? null : originOf(source)
  return token === null || origin === null ? undefined : { origin, token }
}

function originOf(source: GitSource): string | null {
  const { protocol, url } = source
  if (protocol === 'ssh') return `ssh://${sshHost(source)}`
  return protocol === 'file' ? null : new URL(url).origin
}

const sshHost = ({ host, port }: Pick<GitSource, 'host' | 'port'>): string => `${host?.toLowerCase()}:${port}`

function sshOf(source: GitSource, { credentials, useAgent, hostKeys }: RemoteRequest): SshRemote | null {
  if (source.protocol !== 'ssh') return null
  return { host: sshHost(source), key: credentials.sshKey, useAgent, hostKeys }
}

/** More addresses than any host needs. */
const mostAddresses = 8
const answerMs = 5_000

async function pinnedAddresses(
  outbound: Outbound,
  { protocol, host, port }: GitSource,
  signal: AbortSignal,
): Promise<Pin | undefined> {
  if (host === null || port === null || outbound.mode === 'any') return undefined
  const [first, ...more] = await resolved(outbound, host)
  if (protocol !== 'ssh' || more.length === 0) return { host, port, addresses: [first, ...more] }
  // Git tries each address in turn, as curl does. Ssh takes one address, and does not say why a connection failed.
  for (const address of [first, ...more]) {
    if (await accepts(address, port, signal)) return { host, port, addresses: [address] }
  }
  return { host, port, addresses: [first] }
}

async function accepts(host: string, port: number, signal: AbortSignal): Promise<boolean> {
  const socket = connectSocket({ host, port })
  try {
    await once(socket, 'connect', { signal: AbortSignal.any([signal, AbortSignal.timeout(answerMs)]) })
    return true
  } catch {
    signal.throwIfAborted()
    return false
  } finally {
    socket.destroy()
  }
}

async function resolved(outbound: Outbound, host: string): Promise<[string, ...string[]]> {
  try {
    const [first, ...more] = (await outbound.resolve(host)).slice(0, mostAddresses).map(({ address }) => address)
    if (first === undefined) throw new Error('no address')
    return [first, ...more]
  } catch (error) {
    if (error instanceof OutboundError) throw new SourceError(error.code, error.message)
    throw new SourceError('repository_unreachable', `The host ${host} cannot be found.`, 'Check git_url.')
  }
}
