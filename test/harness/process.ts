import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Client, createClient } from '@fairlead/server/client'
import type { OsUser } from '../../server/src/platform/users.ts'
import { countLogLine } from './counts.ts'
import { buildEnvironment } from './environment.ts'
import { freePort, portSettings } from './ports.ts'

export const command = fileURLToPath(new URL('../../server/bin/fairlead.js', import.meta.url))

export interface CommandResult {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/**
 * Runs the command `fairlead` to its end, with `input` as its standard input, as `user` (`null`: the user of the
 * tests).
 */
export function fairlead(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  {
    input = '',
    user = null,
    timeoutMs = 60_000,
  }: { readonly input?: string; readonly user?: OsUser | null; readonly timeoutMs?: number } = {},
): Promise<CommandResult> {
  return new Promise((done) => {
    // Hides the login of the user who runs the tests.
    const env = { PATH: process.env['PATH'], XDG_CONFIG_HOME: '/nonexistent', ...environment }
    const options = { env, timeout: timeoutMs, ...user }
    const child = execFile(process.execPath, [command, ...args], options, (error, stdout, stderr) => {
      done({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr })
    })
    child.stdin?.end(input)
  })
}

/**
 * Returns the pids of all processes with this folder in their command line, such as the PostgreSQL of a cluster in the
 * folder.
 */
export async function processesIn(directory: string): Promise<number[]> {
  const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger)
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
  return pids.filter((_, at) => lines[at]?.includes(directory))
}

/**
 * Returns the pids of all processes that have this folder in their command line, their environment or as their working
 * directory: servers, clusters, builds and apps of a data directory.
 */
export async function processesAround(directory: string): Promise<number[]> {
  const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger)
  const texts = await Promise.all(
    pids.map((pid) =>
      Promise.all([
        readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''),
        readFile(`/proc/${pid}/environ`, 'utf8').catch(() => ''),
        readlink(`/proc/${pid}/cwd`).catch(() => ''),
      ]),
    ),
  )
  return pids.filter((_, at) => texts[at]?.some((text) => text.includes(directory)))
}

/** Signals a process that must exist. The system takes pid 0 as the group of the tests themselves. */
export function signal(pid: number | undefined, name: NodeJS.Signals): void {
  if (pid === undefined) throw new Error(`there is no process for ${name}`)
  process.kill(pid, name)
}

export interface ServerProcess extends AsyncDisposable {
  readonly child: ChildProcess
  readonly url: string
  readonly log: Record<string, unknown>[]
  clientFor(apiKey: string): Client
  /** Resolves when a log line matches, including past lines. */
  waitForLog(matches: (line: Record<string, unknown>) => boolean): Promise<void>
  /** Sends SIGKILL. The effect is like a power failure, except that the disk loses nothing. */
  kill(): Promise<void>
  /** Sends SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>
}

/**
 * Starts `fairlead serve`, by default of this checkout, as a separate process; resolves when it is ready.
 *
 * @param descriptors the server's limit of open files and connections; `null` for the limit of the tests
 */
export async function serverProcess(
  dataDirectory: string,
  environment: Readonly<Record<string, string>> = {},
  user: OsUser | null = null,
  program: string = command,
  descriptors: number | null = null,
): Promise<ServerProcess> {
  // `npm start` uses the same flag.
  const words = [process.execPath, '--max-semi-space-size=2', program, 'serve', '--data-dir', dataDirectory]
  // prlimit execs the command, so that the pid is the server's.
  const limited = descriptors === null ? words : ['prlimit', `--nofile=${descriptors}:${descriptors}`, ...words]
  const [file = '', ...args] = limited
  const child = spawn(file, args, {
    env: {
      PATH: process.env['PATH'],
      FAIRLEAD_PORT: String(await freePort()),
      FAIRLEAD_STABLE_TIME: '0.1',
      FAIRLEAD_DRAIN_TIMEOUT: '2',
      ...portSettings,
      FAIRLEAD_BUILD_ENV: JSON.stringify(buildEnvironment()),
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...user,
    // A Ctrl+C in the terminal does not reach the process. The caller stops it.
    detached: true,
  })
  const log: Record<string, unknown>[] = []
  const watchers = new Set<() => void>()
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  createInterface({ input: child.stdout }).on('line', (line) => {
    const parsed: Record<string, unknown> = JSON.parse(line)
    log.push(parsed)
    countLogLine(parsed)
    for (const check of watchers) check()
  })
  const exited = once(child, 'exit')
  const lastOutput = () => `${errors}${JSON.stringify(log.slice(-5))}`
  const waitForLog: ServerProcess['waitForLog'] = (matches) =>
    new Promise((done, fail) => {
      const check = () => {
        if (!log.some(matches)) return
        watchers.delete(check)
        done()
      }
      watchers.add(check)
      check()
      void exited.then(() => fail(new Error(`the server ended: ${lastOutput()}`)))
    })
  await waitForLog((line) => line['msg'] === 'ready')
  const url = String(log.find((line) => line['msg'] === 'ready')?.['url'])
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal)
    await exited
    return child.exitCode
  }
  return {
    child,
    url,
    log,
    clientFor: (apiKey) => createClient({ baseUrl: `${url}/v1`, apiKey }),
    waitForLog,
    async kill() {
      await end('SIGKILL')
    },
    stop: () => end('SIGTERM'),
    async [Symbol.asyncDispose]() {
      const code = await end('SIGTERM')
      if (code !== 0 && child.signalCode === null)
        throw new Error(`the server ended with code ${code}: ${lastOutput()}`)
    },
  }
}
