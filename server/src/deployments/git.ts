import { spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export interface GitResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs git with an argument array, nothing of the server's environment, and nobody to ask for a password. */
export type Git = (
  args: readonly string[],
  options: { cwd: string; signal: AbortSignal; pin?: Pin | undefined },
) => Promise<GitResult>

/** The address that a host name was found to have when it was checked; git connects to that and to no other. */
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
  /** Whether ssh may use the keys of the user who runs the server: on a laptop, where server and user are one. */
  readonly useOwnSshKeys: boolean
  /** The operator's variables, such as a proxy or a certificate bundle. */
  readonly environment: Readonly<Record<string, string>>
}

const outputLimit = 64 * 1024

// Other users' repositories are read on purpose: only the address decides (see `parseGitUrl`).
// No hook, no helper and no protocol besides those named in the environment.
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

  return (args, { cwd, signal, pin }) =>
    new Promise((done, fail) => {
      signal.throwIfAborted()
      const child = spawn('git', [...pinArguments(pin), ...args], {
        cwd,
        env: { ...environment, GIT_SSH_COMMAND: sshCommand(options, pin) },
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      })
      const output = { stdout: '', stderr: '' }
      const keep = (name: keyof typeof output) => (chunk: Buffer) => {
        output[name] = (output[name] + chunk.toString('utf8')).slice(-outputLimit)
      }
      child.stdout.on('data', keep('stdout'))
      child.stderr.on('data', keep('stderr'))
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
}

// git has helpers (git-remote-https, ssh) that must end with it.
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

function pinArguments(pin: Pin | undefined): string[] {
  if (pin === undefined) return []
  const resolve = `${pin.host}:${pin.port}:${pin.address.includes(':') ? `[${pin.address}]` : pin.address}`
  // A redirect would lead to a host that nobody has checked.
  return ['-c', `http.curloptResolve=${resolve}`, '-c', 'http.followRedirects=false']
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
