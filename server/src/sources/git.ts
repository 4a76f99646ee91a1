import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export interface GitResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs git with an argument array, without the server's environment and without password prompts. */
export type Git = (
  args: readonly string[],
  options: {
    readonly cwd: string
    readonly signal: AbortSignal
    readonly pin?: Pin | undefined
    readonly credentials?: Credentials | undefined
  },
) => Promise<GitResult>

/** The credentials of a private repository, for one origin alone. */
export interface Credentials {
  /** Such as `https://example.com`. */
  readonly origin: string
  /** A token, or `user:password`. */
  readonly token: string
}

/** The address that a host name resolved to when it was checked; git connects to that and to no other. */
export interface Pin {
  readonly host: string
  readonly port: number
  readonly address: string
}

export interface GitOptions {
  /** A folder of git's own, for its configuration and the hosts it knows. */
  readonly directory: string
  readonly path: string
  readonly allowFile: boolean
  /** True when ssh may use the keys of the user who runs the server: in local mode. */
  readonly useOwnSshKeys: boolean
  /** The operator's variables, such as a proxy or a certificate bundle. */
  readonly environment: Readonly<Record<string, string>>
}

const outputLimit = 64 * 1024

// Other users' repositories are read on purpose: only the address decides (see `parseGitUrl`).
// No hook, no helper and no protocol besides those named in the environment. A redirect could lead to a host that was not
// checked, with credentials that are meant for another.
const configuration = `[safe]
	directory = *
[core]
	hooksPath = /dev/null
[credential]
	helper =
[advice]
	detachedHead = false
[gc]
	auto = 0
[maintenance]
	auto = false
[transfer]
	unpackLimit = 1
[http]
	followRedirects = false
[init]
	defaultBranch = main
`

export async function createGit(options: GitOptions): Promise<Git> {
  await mkdir(options.directory, { recursive: true, mode: 0o700 })
  const configFile = join(options.directory, 'config')
  await writeFile(configFile, configuration, { mode: 0o600 })
  const environment = {
    ...options.environment,
    PATH: options.path,
    HOME: options.directory,
    LC_ALL: 'C',
    GIT_CONFIG_GLOBAL: configFile,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ALLOW_PROTOCOL: options.allowFile ? 'https:http:ssh:file' : 'https:http:ssh',
    GIT_SSH_VARIANT: 'ssh',
  }

  const spawnGit = (
    args: readonly string[],
    { cwd, signal, pin }: { cwd: string; signal: AbortSignal; pin?: Pin | undefined },
    secret: FileHandle | undefined,
  ): Promise<GitResult> =>
    new Promise((done, fail) => {
      signal.throwIfAborted()
      const child = spawn('git', [...settingsOf(pin, secret), ...args], {
        cwd,
        env: { ...environment, GIT_SSH_COMMAND: sshCommand(options, pin) },
        stdio: ['ignore', 'pipe', 'pipe', secret?.fd ?? 'ignore'],
        detached: true,
      })
      const output = { stdout: '', stderr: '' }
      const keep = (name: keyof typeof output) => (chunk: Buffer) => {
        output[name] = (output[name] + chunk.toString('utf8')).slice(-outputLimit)
      }
      child.stdout?.on('data', keep('stdout'))
      child.stderr?.on('data', keep('stderr'))
      const abort = () => killGroup(child.pid)
      signal.addEventListener('abort', abort, { once: true })
      child.on('error', (error) => {
        signal.removeEventListener('abort', abort)
        fail(new Error('git could not be run. Install it, and see that it is on the PATH.', { cause: error }))
      })
      child.on('close', (code) => {
        signal.removeEventListener('abort', abort)
        if (signal.aborted) fail(signal.reason)
        else done({ code, ...output })
      })
    })

  return async (args, { credentials, ...rest }) => {
    if (credentials === undefined) return spawnGit(args, rest, undefined)
    const secret = await writeSecret(options.directory, credentials)
    try {
      return await spawnGit(args, rest, secret)
    } finally {
      await secret.close()
    }
  }
}

/** The path of the file behind git's descriptor 3, in every process that it starts. */
const secretPath = '/proc/self/fd/3'

/**
 * Writes the header with the credentials as git's configuration into a file without a name: only processes that inherit
 * its descriptor can read it, no process list and no environment shows it, and nothing is left when the server is killed.
 */
async function writeSecret(directory: string, { origin, token }: Credentials): Promise<FileHandle> {
  const path = join(directory, `secret-${randomUUID()}`)
  const file = await open(path, 'wx+', 0o600)
  try {
    await unlink(path)
    const pair = token.includes(':') ? token : `${tokenUser}:${token}`
    const header = `Authorization: Basic ${Buffer.from(pair).toString('base64')}`
    await file.writeFile(`[http "${origin}/"]\n\textraHeader = "${header}"\n`)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** The user name that hosts expect beside a token, or that they do not look at. */
const tokenUser = 'x-access-token'

// git has helpers (git-remote-https, ssh) that must end with it.
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

function settingsOf(pin: Pin | undefined, secret: FileHandle | undefined): string[] {
  const settings = secret === undefined ? [] : ['-c', `include.path=${secretPath}`]
  if (pin === undefined) return settings
  const address = pin.address.includes(':') ? `[${pin.address}]` : pin.address
  return [...settings, '-c', `http.curloptResolve=${pin.host}:${pin.port}:${address}`]
}

// git splits this by the shell's rules, so the one path in it is quoted by them.
function sshCommand(options: GitOptions, pin: Pin | undefined): string {
  const knownHosts = join(options.directory, 'known_hosts').replaceAll("'", "'\\''")
  const words = [
    'ssh -F none -o BatchMode=yes -o ConnectTimeout=20 -o StrictHostKeyChecking=accept-new',
    `-o 'UserKnownHostsFile="${knownHosts}"'`,
  ]
  if (!options.useOwnSshKeys) words.push('-o IdentityFile=none -o IdentityAgent=none')
  if (pin !== undefined) words.push(`-o HostName=${pin.address} -o HostKeyAlias=${pin.host}`)
  return words.join(' ')
}
