import { execFile } from 'node:child_process'
import { readdir, readFile, readlink, realpath, rename, rm, stat, symlink } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { z } from 'zod'
import { newestMigration, oldestServerAfter } from '../migrations/schema.ts'
import { unlessShort } from '../processes/stat.ts'
import { lastLines } from '../programs.ts'
import { makePassableDirectory } from '../reachable-files.ts'

/** The server's package, installed somewhere on this machine. */
export interface InstalledVersion {
  readonly version: string
  /** The real path of the package's folder. */
  readonly root: string
}

/**
 * A folder for each version, and two links: `current` leads to the package that is started, and `previous` to the
 * package before it. A link may lead elsewhere, to where the first version was installed.
 */
export interface InstalledVersions {
  readonly directory: string
  current(): Promise<InstalledVersion | null>
  previous(): Promise<InstalledVersion | null>
  /**
   * Makes a version current, in one step, and the former current version previous.
   *
   * @param former the previous version when no version is current yet
   */
  select(version: InstalledVersion, former: InstalledVersion): Promise<void>
  restore(before: {
    readonly current: InstalledVersion | null
    readonly previous: InstalledVersion | null
  }): Promise<void>
  /** Keeps these two, and versions that a process runs from. */
  prune(): Promise<void>
}

export const installPrefix = '.install-'
const unusedAgeMs = 60 * 60_000

/** Returns the path of the link to the current version of a data directory. An update changes its target. */
export const currentLink = (dataDirectory: string): string => join(dataDirectory, 'versions', 'current')

/** Returns the program of a version. With the link as `root`, the path stays the same over updates. */
export const programOf = (root: string): string => join(root, 'bin', 'fairlead.js')

/** @param directory the folder `versions` of a data directory; it is created when it is first needed */
export function installedVersions(directory: string): InstalledVersions {
  const read = (name: string) => versionAt(join(directory, name))
  const point = async (name: string, target: InstalledVersion | null) => {
    const link = join(directory, name)
    if (target === null) return rm(link, { force: true })
    const fresh = `${link}.new`
    await rm(fresh, { force: true })
    // Relative inside of the folder, so that a data directory can be moved or restored elsewhere.
    const inside = (await realpath(directory)) + sep
    await symlink(target.root.startsWith(inside) ? target.root.slice(inside.length) : target.root, fresh)
    await rename(fresh, link)
  }
  return {
    directory,
    current: () => read('current'),
    previous: () => read('previous'),

    async select(version, former) {
      await makePassableDirectory(directory)
      await point('previous', (await read('current')) ?? former)
      await point('current', version)
    },

    async restore({ current, previous }) {
      await point('current', current)
      await point('previous', previous)
    },

    async prune() {
      const kept = [await read('current'), await read('previous')].flatMap((each) => (each === null ? [] : each.root))
      const commands = await commandLines()
      // Without a list of processes, the versions in use are unknown.
      if (commands === null) return
      for (const name of await readdir(directory)) {
        const path = join(directory, name)
        const inUse = [...kept, ...commands].some((text) => text.includes(`${sep}versions${sep}${name}${sep}`))
        if (inUse || name === 'current' || name === 'previous' || (await isYoungInstall(path, name))) continue
        await rm(path, { recursive: true, force: true })
      }
    },
  }
}

/** Reads which version a folder or a link to it holds; `null` when it holds none. */
export async function versionAt(path: string): Promise<InstalledVersion | null> {
  try {
    const root = await realpath(path)
    const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
    return { version, root }
  } catch {
    return null
  }
}

/** Another update may be filling the folder. */
async function isYoungInstall(path: string, name: string): Promise<boolean> {
  return name.startsWith(installPrefix) && Date.now() - (await stat(path)).mtimeMs < unusedAgeMs
}

/** Returns the command lines of all processes, links in them resolved; `null` where the system does not tell. */
async function commandLines(): Promise<string[] | null> {
  const pids = (await readdir('/proc').catch(unlessShort([]))).filter((name) => /^\d+$/.test(name))
  if (pids.length === 0) return null
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(unlessShort(''))))
  const parts = [...new Set(lines.flatMap((line) => line.split('\0')))].filter((part) => part.startsWith('/'))
  const resolved = await Promise.all(parts.map((part) => realpath(part).catch(() => part)))
  const links = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => '')))
  return [...resolved, ...links]
}

/** The requirements of a version, with the settings of this environment. Fields are only ever added. */
export const versionDescription = z.object({
  version: z.string(),
  migrations: z.array(z.object({ name: z.string(), oldestServer: z.string().optional() })),
  settings: z.array(z.string()),
  /** The reasons why it could not start here, such as a setting that it does not know. */
  problems: z.array(z.string()),
})

export type VersionDescription = Readonly<z.output<typeof versionDescription>>

/** The hidden command that prints the description; later versions keep it. */
export const describeCommandName = 'self-check'

const deadlineMs = 60_000

/** Runs a version only to get its description. Rejects with its last output when even this fails. */
export function describeVersion(
  { root, version }: InstalledVersion,
  dataDirectory: string,
): Promise<VersionDescription> {
  const args = [programOf(root), describeCommandName, '--data-dir', dataDirectory]
  return new Promise((done, fail) => {
    execFile(process.execPath, args, { timeout: deadlineMs, maxBuffer: 16_000_000 }, (error, stdout, stderr) => {
      const text = lastLines(stderr.replace(/^\s+at .*$/gm, ''))
      if (error !== null) {
        const reason = error.killed ? `it did not answer within ${deadlineMs / 1000} s` : text || error.message
        return fail(new Error(`Version ${version} does not start on this machine:\n${reason}`))
      }
      try {
        done(versionDescription.parse(JSON.parse(stdout)))
      } catch {
        fail(new Error(`Version ${version} does not say what it needs; it is older than updates of this kind.`))
      }
    })
  })
}

export interface VersionChange {
  readonly from: string
  readonly to: string
  readonly migrations: readonly string[]
  /** False when servers of the two versions cannot run beside each other, so that the update needs a stop. */
  readonly besideEachOther: boolean
  /** True when this version still works after the other has run. */
  readonly wayBack: boolean
  readonly newSettings: readonly string[]
  readonly removedSettings: readonly string[]
  readonly problems: readonly string[]
}

export function compareVersions(own: VersionDescription, other: VersionDescription): VersionChange {
  const known = own.migrations.map(({ name }) => name)
  const otherNames = other.migrations.map(({ name }) => name)
  const [newest, otherNewest] = [newestMigration(tableOf(own)), newestMigration(tableOf(other))]
  const isNewer = otherNewest >= newest
  // The schema comes from the newer version; the older has to work on it.
  const oldest = oldestServerAfter(tableOf(isNewer ? other : own))
  const works = (isNewer ? newest : otherNewest) >= oldest
  return {
    from: own.version,
    to: other.version,
    migrations: otherNames.filter((name) => !known.includes(name)),
    besideEachOther: works,
    wayBack: !isNewer || works,
    newSettings: other.settings.filter((name) => !own.settings.includes(name)),
    removedSettings: own.settings.filter((name) => !other.settings.includes(name)),
    problems: other.problems,
  }
}

const tableOf = ({ migrations }: VersionDescription) =>
  Object.fromEntries(
    migrations.map(({ name, oldestServer }) => [
      name,
      { up: async () => undefined, ...(oldestServer === undefined ? {} : { oldestServer }) },
    ]),
  )
