import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Client, createClient } from '@fairlead/server/client'
import type { OsUser } from '../../server/src/platform/users.ts'
import { buildEnvironment } from './environment.ts'
import { freePort, portSettings } from './ports.ts'

export const command = fileURLToPath(new URL('../../server/bin/fairlead.js', import.meta.url))

export interface CommandResult {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs the command `fairlead` to its end, with `input` on its standard input; as `user`, when that is not the tests' own. */
export function fairlead(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  { input = '', user = null }: { readonly input?: string; readonly user?: OsUser | null } = {},
): Promise<CommandResult> {
  return new Promise((done) => {
    const options = { env: { PATH: process.env['PATH'], ...environment }, timeout: 60_000, ...user }
    const child = execFile(process.execPath, [command, ...args], options, (error, stdout, stderr) => {
      done({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr })
    })
    child.stdin?.end(input)
  })
}

/** The pids of all processes that name this folder in their command line, such as a PostgreSQL on a cluster in it. */
export async function processesIn(directory: string): Promise<number[]> {
  const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger)
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
  return pids.filter((_, at) => lines[at]?.includes(directory))
}

export interface ServerProcess extends AsyncDisposable {
  readonly child: ChildProcess
  readonly url: string
  readonly log: Record<string, unknown>[]
  clientFor(apiKey: string): Client
  /** Resolves when a log line fits, past or to come. */
  waitForLog(fits: (line: Record<string, unknown>) => boolean): Promise<void>
  /** SIGKILL: as when the machine loses power, for everything but the disk. */
  kill(): Promise<void>
  /** SIGTERM; gives the exit code. */
  stop(): Promise<number | null>
}

/** `fairlead serve` as a process of its own, ready. */
export async function serverProcess(
  dataDirectory: string,
  environment: Readonly<Record<string, string>> = {},
  user: OsUser | null = null,
): Promise<ServerProcess> {
  // With the flag that `npm start` gives.
  const child = spawn(process.execPath, ['--max-semi-space-size=4', command, 'serve', '--data-dir', dataDirectory], {
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
    // Out of reach of a Ctrl+C in the terminal: whoever started it stops it.
    detached: true,
  })
  const log: Record<string, unknown>[] = []
  const looking = new Set<() => void>()
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  createInterface({ input: child.stdout }).on('line', (line) => {
    log.push(JSON.parse(line))
    for (const look of looking) look()
  })
  const exited = once(child, 'exit')
  const lastWords = () => `${errors}${JSON.stringify(log.slice(-5))}`
  const waitForLog: ServerProcess['waitForLog'] = (fits) =>
    new Promise((done, fail) => {
      const look = () => {
        if (!log.some(fits)) return
        looking.delete(look)
        done()
      }
      looking.add(look)
      look()
      void exited.then(() => fail(new Error(`the server ended: ${lastWords()}`)))
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
      if (code !== 0 && child.signalCode === null) throw new Error(`the server ended with code ${code}: ${lastWords()}`)
    },
  }
}
