import { Command } from 'commander'
import { type Config, ConfigError, knownSettings, loadConfig } from '../platform/config.ts'
import { describeCommandName, type VersionDescription } from '../platform/versions/description.ts'
import { ownVersion } from '../platform/versions/own-package.ts'
import { dataDirOption, type StateFlags } from './shared.ts'

/** `fairlead self-check`, by which an update asks another version what it needs. It changes nothing. */
export function selfCheckCommand(): Command {
  return new Command(describeCommandName)
    .description('print what this version needs, as JSON')
    .addOption(dataDirOption())
    .action(async (flags: StateFlags) => {
      // All modules of the server are loaded, so that an incomplete installation is found before it is used.
      await import('../server.ts')
      process.stdout.write(`${JSON.stringify(await describeOwn(flags))}\n`)
    })
}

/** Returns what this version says of itself, with the settings of this environment. */
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
