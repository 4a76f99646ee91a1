import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { end, freePort, untilAnswering } from './children.ts'
import { inTime } from './deadline.ts'

const npm = fileURLToPath(new URL('../../node_modules/npm/bin/npm-cli.js', import.meta.url))

/** Milliseconds. */
export interface ByHandTimes {
  readonly clone: number
  readonly install: number
  readonly start: number
  readonly total: number
}

/**
 * Measures a deployment by hand: clone, install, start, poll until it answers. The install has the same settings as
 * Fairlead's (no audit, no development dependencies), and the app is started without `npm`. The time excludes stopping
 * the app and removing its folder.
 */
export async function deployByHand(options: {
  readonly url: string
  /** The folder with npm's cache. */
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
    await inTime('answer of the app', signal, untilAnswering(`http://127.0.0.1:${port}/`, app, signal))
    const answering = performance.now()
    return {
      clone: cloned - begin,
      install: installed - cloned,
      start: answering - installed,
      total: answering - begin,
    }
  } finally {
    await end(app, 'SIGKILL')
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
