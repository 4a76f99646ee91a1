import { Command } from 'commander'
import { isRoot } from '../platform/state.ts'
import { telling } from './client/wait.ts'
import { chosenDirectory, directoriesInUse } from './data-directory.ts'
import { CommandError, dataDirOption, type StateFlags, wholeNumber } from './shared.ts'

interface StopFlags extends StateFlags {
  readonly timeout: number
}

const defaultSeconds = 60

/** The exit status when nothing was running, as in `fairlead status`. */
const nothingRan = 3

/**
 * `fairlead stop`: exits with 0 after all parts of the data directory have stopped, with 3 when nothing was running.
 */
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
      const dataDirectory = await chosenDirectory(flags.dataDir)
      const { stopEverything } = await import('./stop-everything.ts')
      const { stopService, unitOf } = await import('./systemd-service.ts')
      let stopped = 0
      const report = (line: string) => {
        stopped += 1
        process.stdout.write(`${line}\n`)
      }
      const unit = await unitOf(dataDirectory)
      if (unit !== null) {
        if (!isRoot())
          throw new CommandError(
            `systemd runs this server as ${unit}, which only root stops: sudo fairlead stop --data-dir ${dataDirectory}`,
          )
        await telling(`stopping ${unit}`, () => stopService(unit, ['stop'], flags.timeout * 1000))
        report(`stopped the service ${unit}; start it again: systemctl start ${unit}`)
      }
      await telling('stopping what runs', () =>
        stopEverything({ dataDirectory, timeoutMs: flags.timeout * 1000, report }),
      )
      if (stopped > 0) return
      process.stdout.write(`nothing was running with the data directory ${dataDirectory}\n`)
      for (const folder of await directoriesInUse()) {
        process.stdout.write(`the data directory ${folder} is in use: fairlead stop --data-dir ${folder}\n`)
      }
      process.exitCode = nothingRan
    })
}
