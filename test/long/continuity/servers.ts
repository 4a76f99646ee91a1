import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { buildEnvironment } from '../../harness/environment.ts'
import { portSettings } from '../../harness/ports.ts'
import { command } from '../../harness/process.ts'

/** A server under a service manager: its end leaves the apps running. */
export interface Served {
  /** Starts the installed version and resolves when it is ready. */
  start(): Promise<void>
  /** Sends a signal to the process of the server and resolves when it has ended. */
  end(signal: NodeJS.Signals): Promise<void>
  /** Runs a command of the installed version on the data directory; rejects on failure. */
  command(...args: string[]): Promise<string>
  readonly output: string
}

const readyTimeoutMs = 120_000
/** A stopping server finishes uploads first, for five minutes at most. */
const endTimeoutMs = 360_000

export function createServed(directory: string, port: number): Served {
  const dataDirectory = join(directory, 'data')
  const output = join(directory, 'server.log')
  const environment = {
    ...process.env,
    ...portSettings,
    FAIRLEAD_DATA_DIR: dataDirectory,
    FAIRLEAD_PORT: String(port),
    FAIRLEAD_ON_STOP: 'server',
    FAIRLEAD_BUILD_ENV: JSON.stringify(buildEnvironment()),
    ...buildEnvironment(),
  }
  const program = async () => {
    const installed = join(dataDirectory, 'versions', 'current', 'bin', 'fairlead.js')
    return (await readFile(installed).catch(() => undefined)) === undefined ? command : installed
  }
  const isReady = async () => (await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined))?.ok === true

  return {
    output,
    async start() {
      const log = await open(output, 'a')
      const child = spawn(process.execPath, ['--max-semi-space-size=2', await program(), 'serve'], {
        env: environment,
        stdio: ['ignore', log.fd, log.fd],
        detached: true,
      })
      child.unref()
      await log.close()
      const deadline = performance.now() + readyTimeoutMs
      while (!(await isReady())) {
        if (child.exitCode !== null || performance.now() > deadline)
          throw new Error(`no server is ready: see ${output}`)
        await sleep(25)
      }
    },
    async end(signal) {
      const { servers } = JSON.parse(await this.command('status', '--json')) as { servers: { pid: number }[] }
      for (const { pid } of servers) process.kill(pid, signal)
      const deadline = performance.now() + endTimeoutMs
      while (servers.some(({ pid }) => isAlive(pid))) {
        if (performance.now() > deadline) throw new Error(`the server does not end by ${signal}`)
        await sleep(25)
      }
    },
    async command(...args) {
      const child = spawn(process.execPath, [await program(), ...args], { env: environment })
      let said = ''
      child.stdout.on('data', (text) => {
        said += text
      })
      let errors = ''
      child.stderr.on('data', (text) => {
        errors += text
      })
      const [code] = await once(child, 'close')
      if (code !== 0) throw new Error(`fairlead ${args.join(' ')} ended with ${code}: ${errors}${said}`)
      return said
    },
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
