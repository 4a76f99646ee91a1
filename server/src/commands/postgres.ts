import { Command } from 'commander'
import { loadConfig } from '../platform/config.ts'
import { createLogger } from '../platform/logger.ts'
import { telling } from './client/wait.ts'
import { chosenDirectory } from './data-directory.ts'
import { dataDirOption, type StateFlags } from './shared.ts'

export function postgresCommand(): Command {
  const postgres = new Command('postgres').description("install versions of PostgreSQL for users' databases")
  postgres
    .command('install')
    .description('install a version from the npm registry ahead of time')
    .argument('<major>', 'the major version, such as 16')
    .addOption(dataDirOption())
    .action(async (major: string, flags: StateFlags) => {
      const config = loadConfig({ dataDir: await chosenDirectory(flags.dataDir) })
      const logger = createLogger({ level: 'error', destination: 'stderr' })
      const stop = new AbortController()
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
      const { installBinaries } = await import('../administration.ts')
      const version = await telling(`installing PostgreSQL ${major}`, () =>
        installBinaries({ config, logger, signal: stop.signal }, major),
      )
      process.stdout.write(`PostgreSQL ${version} is installed\n`)
    })
  return postgres
}
