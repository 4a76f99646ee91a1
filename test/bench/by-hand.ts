import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const npm = fileURLToPath(new URL('../../node_modules/npm/bin/npm-cli.js', import.meta.url))

const pollMs = 20

/** Milliseconds. */
export interface ByHandTimes {
  readonly clone: number
  readonly install: number
  readonly start: number
  readonly total: number
}

/**
 * What one would do by hand, timed: clone, install, start, ask until it answers. The install has the settings that
 * Fairlead gives to its own (no audit, no development dependencies), and the start goes without `npm`.
 * The app is stopped and its folder removed afterwards, outside of the time.
 */
export async function deployByHand(options: {
  readonly url: string
  /** Keeps npm's cache. */
  readonly home: string
  readonly environment: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}): Promise<ByHandTimes> {
  const { url, home, signal } = options
  const folder = join(home, 'app')
  await mkdir(home, { recursive: true })
  await rm(folder, { recursive: true, force: true })
  const port = await freePort()
  const env = {
    ...options.environment,
    PATH: `${dirname(process.execPath)}:${process.env['PATH']}`,
    HOME: home,
    NODE_ENV: 'production',
    npm_config_audit: 'false',
    npm_config_fund: 'false',
    npm_config_update_notifier: 'false',
  }

  const begin = performance.now()
  await run('git', ['clone', '--quiet', '--depth', '1', url, folder], { cwd: home, env, signal })
  const cloned = performance.now()
  await run(process.execPath, [npm, 'ci', '--omit=dev'], { cwd: folder, env, signal })
  const installed = performance.now()
  const app = spawn(process.execPath, ['server.js'], {
    cwd: folder,
    env: { ...env, PORT: String(port) },
    stdio: 'ignore',
  })
  try {
    await untilAnswering(`http://127.0.0.1:${port}/`, app, signal)
    const answering = performance.now()
    return {
      clone: cloned - begin,
      install: installed - cloned,
      start: answering - installed,
      total: answering - begin,
    }
  } finally {
    await end(app)
    await rm(folder, { recursive: true, force: true })
  }
}

async function run(
  program: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly env: Record<string, string>; readonly signal: AbortSignal },
): Promise<void> {
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'ignore', 'pipe'] })
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${program} ${args[0]} ended with ${code}: ${errors}`)
}

async function untilAnswering(url: string, app: ChildProcess, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted()
    if (app.exitCode !== null || app.signalCode !== null) throw new Error('the app started by hand has ended')
    const response = await fetch(url, { signal }).catch(() => undefined)
    if (response?.ok) {
      await response.text()
      return
    }
    await sleep(pollMs)
  }
}

async function end(app: ChildProcess): Promise<void> {
  if (app.exitCode !== null || app.signalCode !== null || app.pid === undefined) return
  const exited = once(app, 'exit')
  app.kill('SIGKILL')
  await exited
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
