import { Command } from 'commander'
import { loadConfig } from '../platform/config.ts'
import { dataDirOption, type StateFlags, wholeNumber } from './shared.ts'

interface StopFlags extends StateFlags {
  readonly timeout: number
}

const defaultSeconds = 60

/** `fairlead stop`: exits with 0 when nothing of the data directory is left running. */
export function stopCommand(): Command {
  return new Command('stop')
    .description('stop servers, gateway, apps and databases of the data directory, with a server or without one')
    .option(
      '--timeout <seconds>',
      'how long a server may take to finish its requests; then it is ended by force',
      wholeNumber(1, 3600),
      defaultSeconds,
    )
    .addOption(dataDirOption())
    .action(async (flags: StopFlags) => {
      const { dataDirectory } = loadConfig({ dataDir: flags.dataDir })
      const { stopEverything } = await import('../running/stop.ts')
      let stopped = 0
      const report = (line: string) => {
        stopped += 1
        process.stdout.write(`${line}\n`)
      }
      await stopEverything({ dataDirectory, timeoutMs: flags.timeout * 1000, report })
      if (stopped === 0) process.stdout.write('nothing was running\n')
    })
}
