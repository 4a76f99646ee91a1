import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { lastLines } from './last-lines.ts'

const keptCharacters = 20_000

/**
 * Runs the npm that the server depends on, in `folder`. Resolves with null when it has succeeded, otherwise with the last
 * lines of its errors. Rejects when it cannot be started, or `signal` aborts.
 *
 * @param options.args the command of npm and what it works on; the flags that every run needs are added
 * @param options.environment the whole environment, with this machine's settings for the registry
 */
export async function runNpm(options: {
  readonly folder: string
  readonly args: readonly [command: string, ...string[]]
  readonly environment: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}): Promise<string | null> {
  const { folder, environment, signal } = options
  const [command, ...args] = options.args
  const npm = join(createRequire(import.meta.url).resolve('npm/package.json'), '..', 'bin', 'npm-cli.js')
  const flags = [
    // Otherwise npm would look for a project above the working directory.
    `--prefix=${folder}`,
    '--no-audit',
    '--no-fund',
    '--no-update-notifier',
    '--loglevel=error',
  ]
  const child = spawn(process.execPath, [npm, command, ...flags, ...args], {
    cwd: folder,
    env: environment,
    stdio: ['ignore', 'ignore', 'pipe'],
    signal,
  })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    errors = (errors + chunk).slice(-keptCharacters)
  })
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  child.once('error', reject)
  child.once('close', resolve)
  return (await promise) === 0 ? null : lastLines(errors)
}
