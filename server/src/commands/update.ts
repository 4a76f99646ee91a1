import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { Command } from 'commander'
import { type Config, ConfigError, knownSettings, loadConfig } from '../platform/config.ts'
import { ownRoot, ownVersion } from '../platform/package-files.ts'
import type { UpdateResult, Updater, VersionSource } from '../platform/versions/update.ts'
import { describeCommandName, type VersionChange, type VersionDescription } from '../platform/versions/versions.ts'
import { telling } from './client/wait.ts'
import { chosenDirectory } from './data-directory.ts'
import { handOver, serversOf } from './reload.ts'
import { CommandError, dataDirOption, type StateFlags } from './shared.ts'

interface UpdateFlags extends StateFlags {
  readonly check?: true
  readonly back?: true
}

export function updateCommand(): Command {
  return new Command('update')
    .description('install another version beside this one, and use it; the former is kept')
    .argument('[version or files...]', 'a version of the npm registry, or archives made by npm pack')
    .option('--check', 'say what the version would change, and change nothing')
    .option('--back', 'return to the former version')
    .addOption(dataDirOption())
    .action(async (given: string[], asked: UpdateFlags) => {
      const flags = { ...asked, dataDir: await chosenDirectory(asked.dataDir) }
      if (flags.back) {
        if (given.length > 0 || flags.check) throw new CommandError('--back takes no version and no other option.')
        return report(await telling('changing the version', async () => (await updaterFor(flags)).back()))
      }
      if (given.length === 0 && !flags.check) {
        throw new CommandError(
          'Name a version, such as: fairlead update latest. Or return with: fairlead update --back',
        )
      }
      const source = sourceOf(given.length === 0 ? ['latest'] : given)
      const updater = await updaterFor(flags)
      if (flags.check) reportChange(await telling('getting the version', () => updater.check(source)))
      else report(await telling('changing the version', () => updater.update(source)))
    })
}

/** A version or tag that npm accepts after `@`. A match is never an option or the name of another package. */
const versionPattern = /^[a-z0-9][a-z0-9.+-]{0,99}$/i

function sourceOf(given: readonly string[]): VersionSource {
  const isFile = (text: string) => text.endsWith('.tgz') || text.endsWith('.tar.gz') || text.includes('/')
  if (given.every(isFile)) {
    const missing = given.find((path) => !existsSync(path))
    if (missing !== undefined) throw new CommandError(`There is no file ${missing}.`)
    return { files: given.map((path) => resolve(path)) }
  }
  const [version = '', ...others] = given
  if (others.length > 0) throw new CommandError('Name one version, or only archives.')
  if (!versionPattern.test(version)) throw new CommandError(`"${version}" is not a version in the npm registry.`)
  return { version: version.replace(/^v(?=\d)/, '') }
}

async function updaterFor(flags: StateFlags): Promise<Updater> {
  const config = loadConfig({ dataDir: flags.dataDir })
  if (!existsSync(config.dataDirectory)) {
    throw new CommandError(`There is no data directory ${config.dataDirectory}; name it with --data-dir.`)
  }
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  const { createUpdater } = await import('../platform/versions/update.ts')
  return createUpdater({
    dataDirectory: config.dataDirectory,
    own: { version: ownVersion, root: ownRoot, description: await describeOwn(flags) },
    server: {
      isRunning: async () => (await serversOf(flags)).length > 0,
      handOver: async () => void (await handOver(flags)),
      takeBack: async (from) => void (await handOver(flags, ({ version }) => version === from.version)),
    },
    environment: config.databases.registryEnvironment,
    signal: stop.signal,
  })
}

function report({ version, handedOver }: UpdateResult): void {
  process.stdout.write(
    handedOver
      ? `The server is version ${version} now\n`
      : `Version ${version} is the current one; start the server again to use it\n`,
  )
}

/** Prints the effects of an update. The exit status is 1 when the version cannot run on this machine. */
export function reportChange(change: VersionChange): void {
  const names = (list: readonly string[]) => (list.length === 0 ? 'none' : list.join(', '))
  const way = change.wayBack ? 'stays open' : 'closes, because this version cannot work on the new schema'
  const beside = change.besideEachOther ? 'yes' : 'no: stop the server for this update, or update to a version between'
  process.stdout.write(
    [
      `version: ${change.to} (now ${change.from})`,
      `migrations: ${names(change.migrations)}`,
      `while the server runs: ${beside}`,
      `way back: ${way}`,
      `new settings: ${names(change.newSettings)}`,
      `removed settings: ${names(change.removedSettings)}`,
      `problems: ${names(change.problems)}`,
      '',
    ].join('\n'),
  )
  if (change.problems.length > 0) process.exitCode = 1
}

/** `fairlead self-check`: an update runs this command of another version to learn its requirements. Changes nothing. */
export function selfCheckCommand(): Command {
  return new Command(describeCommandName)
    .description('print what this version needs, as JSON')
    .addOption(dataDirOption())
    .action(async (flags: StateFlags) => {
      // Loads all modules, to find an incomplete installation before it is used.
      await import('../server.ts')
      process.stdout.write(`${JSON.stringify(await describeOwn(flags))}\n`)
    })
}

export async function describeOwn(flags: StateFlags): Promise<VersionDescription> {
  const { migrations } = await import('../platform/migrations/index.ts')
  return {
    version: ownVersion,
    migrations: Object.entries(migrations).map(([name, { oldestServer }]) => ({
      name,
      ...(oldestServer === undefined ? {} : { oldestServer }),
    })),
    settings: knownSettings(),
    problems: await problemsOf(flags),
  }
}

async function problemsOf(flags: StateFlags): Promise<string[]> {
  let config: Config
  try {
    config = loadConfig({ dataDir: flags.dataDir })
  } catch (error) {
    if (error instanceof ConfigError) return [error.message]
    throw error
  }
  if (config.databaseUrl !== undefined) return []
  const { locateBinaries } = await import('../platform/postgres/binaries.ts')
  return locateBinaries().then(
    () => [],
    (error: Error) => [error.message],
  )
}
