import { randomUUID } from 'node:crypto'
import { chmod, type FileHandle, mkdir, open, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ensurePrivateFolder } from '../platform/disk/folders.ts'
import { type Confined, type ConfinedExit, inheritedDescriptor } from '../platform/sandbox/confined.ts'
import type { OpenedRepository } from './local-repository.ts'
import { SourceError } from './source-error.ts'
import { type DeployKey, type HostKeys, hostAlias, openSshAccess, type SshAccess } from './ssh.ts'

export type GitResult = ConfinedExit

/** Runs git in a sandbox, without a shell, the server's environment and password prompts. */
export interface Git {
  run(args: readonly string[], options: GitRun): Promise<GitResult>
  /**
   * Runs a constant shell script that uses git several times on local files, because starting a sandbox takes longer
   * than git itself. Input reaches it only by its arguments and standard input.
   */
  script(script: string, args: readonly string[], options: Omit<GitRun, 'remote'>): Promise<GitResult>
  urlOf(opened: OpenedRepository): string
  /** True when git sees only the repository, and nothing else of the machine. */
  readonly isSandboxed: boolean
}

export interface GitRun {
  readonly signal: AbortSignal
  readonly writable: readonly string[]
  readonly remote?: RemoteAccess
  /** Receives standard output instead of the result; git ends when it throws. */
  readonly onOutput?: (chunk: Buffer) => void
  /** The text for standard input, written once it is available. */
  readonly input?: Promise<string>
}

export interface RemoteAccess {
  readonly pin: Pin | undefined
  readonly credentials: Credentials | undefined
  /** Set for a repository on this machine, which needs no network. */
  readonly opened: OpenedRepository | null
  readonly ssh: SshRemote | null
}

export interface SshRemote {
  /** The host with its port, such as `example.com:22`. */
  readonly host: string
  readonly key: DeployKey | null
  readonly useAgent: boolean
  readonly hostKeys: HostKeys
}

export interface Credentials {
  readonly origin: string
  /** A token, or `user:password`. */
  readonly token: string
}

/** The addresses of a host name when it was checked; git connects only to these. For ssh it is one address. */
export interface Pin {
  readonly host: string
  readonly port: number
  readonly addresses: readonly [string, ...string[]]
}

export interface GitOptions {
  readonly directory: string
  readonly confined: Confined
  /** The operator's settings, such as a proxy or a certificate bundle. */
  readonly environment: Readonly<Record<string, string>>
  /** The socket of the operator's ssh agent; null without an agent. */
  readonly sshAgent: string | null
  /** The size limit of files that git writes, in bytes. */
  readonly mostFileBytes: number
}

/** The path of a local repository inside the sandbox. */
const repositoryPath = '/repository'

/** Faults that are common in old repositories (git-fsck(1)). */
export const harmlessFaults = [
  'zeroPaddedFilemode',
  'badTimezone',
  'missingSpaceBeforeDate',
  'missingEmail',
  'missingNameBeforeEmail',
  'missingSpaceBeforeEmail',
  'badEmail',
  'zeroPaddedDate',
  'badDateOverflow',
  'gitmodulesUrl',
  'gitmodulesParse',
]

// Git uses no hooks, no helpers, and only the protocols in the environment. Redirects are off: they could lead to an
// unchecked host, with the credentials of another. Objects are checked as they arrive, except for harmless faults of
// old programs, and for .gitmodules, whose addresses are checked before use. To save memory, large files are streamed
// and one thread works.
const configuration = `[core]
	hooksPath = /dev/null
	bigFileThreshold = 16m
	packedGitLimit = 128m
	deltaBaseCacheLimit = 32m
	fsmonitor = false
[credential]
	helper =
[advice]
	detachedHead = false
[gc]
	auto = 0
[maintenance]
	auto = false
[pack]
	threads = 1
	windowMemory = 64m
[index]
	threads = 1
[checkout]
	workers = 1
[transfer]
	unpackLimit = 1
	fsckObjects = true
[fetch "fsck"]
${harmlessFaults.map((fault) => `\t${fault} = ignore`).join('\n')}
[http]
	followRedirects = false
[init]
	defaultBranch = main
`

export async function createGit(options: GitOptions): Promise<Git> {
  const { directory, confined } = options
  const files = await prepareFiles(directory, confined)

  const run = async (argv: Argv, given: GitRun, secret: FileHandle | null): Promise<GitResult> => {
    const { remote, signal } = given
    const isRemote = remote !== undefined && remote.opened === null
    const ssh = remote?.ssh == null ? null : await openSsh(remote.ssh, options, files)
    try {
      const result = await confined.run(
        {
          argv,
          env: environmentOf(options, files, remote, ssh),
          writable: [...given.writable, ...(isRemote ? [files.home] : []), ...(ssh === null ? [] : [ssh.folder])],
          readable: [files.configuration, ...certificates(options.environment)],
          mounted: [{ from: files.passwd, at: '/etc/passwd' }],
          opened: remote?.opened ? { ...remote.opened, at: repositoryPath } : null,
          network: isRemote,
          inherited: secret,
          mostFileBytes: options.mostFileBytes,
          ...(given.onOutput === undefined ? {} : { onOutput: given.onOutput }),
          ...(given.input === undefined ? {} : { input: given.input }),
        },
        signal,
      )
      if (ssh !== null && remote?.ssh != null) await keepHostKey(remote.ssh, ssh)
      return result
    } finally {
      await ssh?.close()
    }
  }

  return {
    isSandboxed: confined.isSandboxed,
    urlOf: ({ realPath }) => `file://${confined.isSandboxed ? repositoryPath : encodeURI(realPath)}`,
    async run(args, given) {
      const { remote } = given
      const argvOf = (secret: FileHandle | null): Argv => ['git', ...settingsOf(remote, secret), ...args]
      if (remote?.credentials === undefined) return run(argvOf(null), given, null)
      const secret = await writeSecret(directory, remote.credentials)
      try {
        return await run(argvOf(secret), given, secret)
      } finally {
        await secret.close()
      }
    },
    script: (script, args, given) => run(['/bin/sh', '-c', script, 'sh', ...args], given, null),
  }
}

type Argv = readonly [string, ...string[]]

interface Files {
  readonly home: string
  readonly configuration: string
  /** Names git's user: ssh needs a user with a name. */
  readonly passwd: string
  readonly user: Confined['user']
}

async function prepareFiles(directory: string, { user, isSandboxed }: Confined): Promise<Files> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  // Git may run as another user, which must pass through the folder.
  if (user !== null) await chmod(directory, 0o711)
  const files = {
    home: join(directory, 'home'),
    configuration: join(directory, 'config'),
    passwd: join(directory, 'passwd'),
    user,
  }
  await ensurePrivateFolder(files.home, user)
  // Git reads another user's repository only if it is listed here. Without a sandbox, its path is known too late.
  const safe = `[safe]\n\tdirectory = ${isSandboxed ? repositoryPath : '*'}\n`
  const ids = user ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
  await writeReadable(files.configuration, `${configuration}${safe}`)
  await writeReadable(files.passwd, `git:x:${ids.uid}:${ids.gid}::${files.home}:/bin/false\n`)
  return files
}

async function writeReadable(path: string, content: string): Promise<void> {
  await writeFile(path, content, { mode: 0o644 })
  // The mode above applies only to a new file.
  await chmod(path, 0o644)
}

/** The inherited file, in git and in all processes of git. */
const secretPath = `/proc/self/fd/${inheritedDescriptor}`

/**
 * Writes the header with the credentials, as git configuration, into a file without a name. Only processes that inherit
 * its descriptor can read it. It appears in no process list and no environment, and is gone when the server is killed.
 */
async function writeSecret(directory: string, { origin, token }: Credentials): Promise<FileHandle> {
  const path = join(directory, `secret-${randomUUID()}`)
  const file = await open(path, 'wx+', 0o600)
  try {
    await unlink(path)
    const pair = token.includes(':') ? token : `${tokenUser}:${token}`
    const header = `Authorization: Basic ${Buffer.from(pair).toString('base64')}`
    await file.writeFile(`[http "${origin}/"]\n\textraHeader = "${header}"\n`)
    // Git opens the file by its descriptor, and may run as another user.
    await file.chmod(0o644)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Hosts expect this user name with a token, or ignore it. */
const tokenUser = 'x-access-token'

function settingsOf(remote: RemoteAccess | undefined, secret: FileHandle | null): string[] {
  const settings = secret === null ? [] : ['-c', `include.path=${secretPath}`]
  const pin = remote?.pin
  if (pin === undefined) return settings
  const addresses = pin.addresses.map((address) => (address.includes(':') ? `[${address}]` : address))
  return [...settings, '-c', `http.curloptResolve=${pin.host}:${pin.port}:${addresses.join(',')}`]
}

function environmentOf(
  { environment }: GitOptions,
  { home, configuration }: Files,
  remote: RemoteAccess | undefined,
  ssh: SshAccess | null,
): Record<string, string> {
  return {
    ...environment,
    HOME: home,
    LC_ALL: 'C',
    GIT_CONFIG_GLOBAL: configuration,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ALLOW_PROTOCOL: remote?.opened ? 'file' : ssh === null ? 'https:http' : 'ssh',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_SSH_VARIANT: 'ssh',
    ...(ssh === null ? {} : { GIT_SSH_COMMAND: sshCommand(ssh, remote) }),
    ...(ssh === null || ssh.agent === null ? {} : { SSH_AUTH_SOCK: ssh.agent }),
  }
}

// Git splits this text by the shell's rules, so the path in it is quoted by these rules.
function sshCommand({ knownHosts, agent }: SshAccess, remote: RemoteAccess | undefined): string {
  const words = [
    'ssh -F none -o BatchMode=yes -o ConnectTimeout=20 -o StrictHostKeyChecking=accept-new -o UpdateHostKeys=no',
    `-o 'UserKnownHostsFile="${knownHosts.replaceAll("'", "'\\''")}"' -o GlobalKnownHostsFile=none -o HostKeyAlias=${hostAlias}`,
    '-o IdentityFile=none',
  ]
  if (agent === null) words.push('-o IdentityAgent=none')
  const pin = remote?.pin
  if (pin !== undefined) words.push(`-o HostName=${pin.addresses[0]}`)
  return words.join(' ')
}

/** Prepares ssh for one run of git: with the app's key, otherwise with the operator's agent if that is allowed. */
async function openSsh(
  { key, useAgent, host, hostKeys }: SshRemote,
  { sshAgent }: GitOptions,
  files: Files,
): Promise<SshAccess> {
  return openSshAccess({ agent: key ?? (useAgent ? sshAgent : null), hostKey: await hostKeys.keyOf(host) }, files)
}

/** Stores the key of a new host. Rejects with a `SourceError` when the host has shown two different keys. */
async function keepHostKey({ host, hostKeys }: SshRemote, ssh: SshAccess): Promise<void> {
  const met = await ssh.metKey()
  if (met === null || (await hostKeys.keep(host, met))) return
  throw new SourceError(
    'host_key_changed',
    `The ssh host ${host} shows different keys.`,
    'Ask its owner which one is right.',
  )
}

const certificates = (environment: Readonly<Record<string, string>>): string[] =>
  Object.entries(environment).flatMap(([name, value]) =>
    /^(GIT_SSL|SSL_CERT|CURL_CA)_/.test(name) && value.startsWith('/') ? [value] : [],
  )
