import { Command } from 'commander'
import { z } from 'zod'
import { loadConfig } from '../platform/config.ts'
import { controlsOf, type ServerControl, type ServerStatus } from '../platform/control/client.ts'
import { dataDirectoryAt } from '../platform/data-directory.ts'
import { telling } from './client/wait.ts'
import { chosenDirectory } from './data-directory.ts'
import { CommandError, dataDirOption, type StateFlags } from './shared.ts'

/** A server itself reports a late successor, within this time after the deadline. */
const marginMs = 60_000

const successor = z.object({ pid: z.int(), version: z.string() })

export function reloadCommand(): Command {
  return new Command('reload')
    .description('replace the running server by a new one of the current version; nothing is interrupted')
    .addOption(dataDirOption())
    .action(async (given: StateFlags) => {
      const flags = { dataDir: await chosenDirectory(given.dataDir) }
      const servers = await serversOf(flags)
      if (servers.length === 0)
        throw new CommandError('No server runs on this data directory; start it with: fairlead serve')
      for (const { pid, version } of await telling('handing over', () => handOver(flags))) {
        process.stdout.write(`The server is version ${version} now (pid ${pid})\n`)
      }
    })
}

export function serversOf(flags: StateFlags): Promise<readonly ServerControl[]> {
  return controlsOf(dataDirectoryAt(loadConfig({ dataDir: flags.dataDir }).dataDirectory).run)
}

/**
 * Replaces the servers one after the other. Rejects when a successor does not become ready; its predecessor goes on.
 *
 * @param isWanted returns false for servers that stay
 */
export async function handOver(
  flags: StateFlags,
  isWanted: (status: ServerStatus) => boolean = () => true,
): Promise<z.output<typeof successor>[]> {
  const { handover } = loadConfig({ dataDir: flags.dataDir })
  const successors: z.output<typeof successor>[] = []
  for (const server of await serversOf(flags)) {
    const status = await server.status()
    // A stopping server already has a successor.
    if (status.state === 'stopping' || !isWanted(status)) continue
    const limited = AbortSignal.timeout(handover.readyMs + marginMs)
    successors.push(successor.parse(await server.send('POST', '/handover', undefined, limited)))
  }
  return successors
}
