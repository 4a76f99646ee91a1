import { dirname, join } from 'node:path'
import { exists } from '../files.ts'
import { compareVersions, describeVersion, type VersionChange, type VersionDescription } from './description.ts'
import { installCandidate, type VersionSource } from './install.ts'
import { currentLink, type InstalledVersion, installedVersions, versionAt } from './installed.ts'

/** The server of the data directory, as an update needs it. */
export interface RunningServer {
  isRunning(): Promise<boolean>
  /**
   * Has the current version take over. Rejects with the reason when it does not; the server goes on then. It cannot be given
   * up: a server that is asked goes through with it.
   */
  handOver(): Promise<void>
  /** Has the current version take over from servers of a version that failed: of several, some may run it already. */
  takeBack(from: InstalledVersion): Promise<void>
}

export interface UpdateResult {
  readonly version: string
  /** False when no server runs, so that the next start uses the version. */
  readonly handedOver: boolean
}

export interface Updater {
  /** Says what a version would change, and keeps nothing of it. */
  check(source: VersionSource): Promise<VersionChange>
  /** Installs a version and has it take over. When that fails, everything is as it was. */
  update(source: VersionSource): Promise<UpdateResult>
  /** Returns to the version before. */
  back(): Promise<UpdateResult>
}

/** @param options.own the version of this program, which also leads the data directory until one has been installed */
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

  /** Returns a version that is installed already, or a candidate. */
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
      // Servers of the failed version need a link to what they return to.
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
          // Installed by this update alone, so it leaves nothing behind.
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
