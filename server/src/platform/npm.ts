import { createRequire } from 'node:module'
import { join } from 'node:path'
import { startProcess } from './processes.ts'
import { lastLines } from './programs.ts'

const keptCharacters = 20_000
/** More than any list of versions. */
const mostOutput = 1_000_000

export interface NpmRun {
  readonly folder: string
  /** `askNpm` adds the flags that every run needs. */
  readonly args: readonly [command: string, ...string[]]
  /** The whole environment, with this machine's settings for the registry. */
  readonly environment: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

/**
 * Runs the npm that the server depends on, in `folder`. Resolves with null on success, otherwise with the last lines of
 * npm's errors. Rejects when npm cannot be started, or `signal` aborts.
 */
export async function runNpm(run: NpmRun): Promise<string | null> {
  const result = await askNpm(run)
  return result.ok ? null : result.errors
}

export type NpmAnswer =
  | { readonly ok: true; readonly output: string }
  /** `errors` has the last lines of npm's errors; `code` is the code of the first, such as E404. */
  | { readonly ok: false; readonly errors: string; readonly code: string | undefined }

/** Runs npm as `runNpm` does, and returns what it prints. */
export async function askNpm({ folder, environment, signal, ...run }: NpmRun): Promise<NpmAnswer> {
  const [command, ...args] = run.args
  const npm = join(createRequire(import.meta.url).resolve('npm/package.json'), '..', 'bin', 'npm-cli.js')
  const flags = [
    // Otherwise npm would look for a project above the working directory.
    `--prefix=${folder}`,
    '--no-audit',
    '--no-fund',
    '--no-update-notifier',
    '--loglevel=error',
  ]
  const child = startProcess(process.execPath, [npm, command, ...flags, ...args], {
    cwd: folder,
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
  })
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  child.once('error', reject)
  child.once('close', resolve)
  let output = ''
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    output = (output + chunk).slice(0, mostOutput)
  })
  let errors = ''
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    errors = (errors + chunk).slice(-keptCharacters)
  })
  if ((await promise) === 0) return { ok: true, output }
  const [, code] = /^npm error code (\S+)/m.exec(errors) ?? []
  return { ok: false, errors: lastLines(errors), code }
}
