import { dirname, join, resolve } from 'node:path'
import { loadClientSettings } from '../platform/config/client.ts'
import { loadConfig } from '../platform/config.ts'
import { controlsOf } from '../platform/control/client.ts'
import { installedSettings } from '../platform/service-manager/installation.ts'
import { serverUnitName } from '../platform/service-manager/units.ts'
import { dataDirectoryAt } from '../platform/startup/data-directory.ts'
import { ownRoot } from '../platform/versions/own-package.ts'
import { CommandError } from './client/command-error.ts'

/** The data directories in which servers of this machine keep their data unless told otherwise, the folder of this shell first. */
export async function usualDirectories(): Promise<string[]> {
  const service = await installedSettings(serverUnitName).catch(() => undefined)
  const folders = [resolve('.fairlead'), join(dirname(ownRoot), '.fairlead'), '/var/lib/fairlead']
  return [...new Set([...folders, ...(service == null ? [] : [service.dataDirectory])])]
}

/** Returns the usual data directories in which servers run, but for one. */
export async function runningElsewhere(than: string): Promise<string[]> {
  const runs = async (folder: string) => (await controlsOf(dataDirectoryAt(folder).run).catch(() => [])).length > 0
  const others = (await usualDirectories()).filter((folder) => folder !== than)
  return (await Promise.all(others.map(async (folder) => ((await runs(folder)) ? [folder] : [])))).flat()
}

/**
 * Returns the data directory of a command of this machine: the one that the option or the environment names, that of a server in the
 * folder of this shell, that of the one server that runs elsewhere, which it says, or the folder of this shell. Throws a `CommandError`
 * when several servers run elsewhere.
 */
export async function chosenDirectory(given: string | undefined): Promise<string> {
  const { dataDirectory } = loadConfig({ dataDir: given })
  if (given !== undefined || loadClientSettings().hasDataDirectory) return dataDirectory
  if ((await controlsOf(dataDirectoryAt(dataDirectory).run).catch(() => [])).length > 0) return dataDirectory
  const [only, ...others] = await runningElsewhere(dataDirectory)
  if (only === undefined) return dataDirectory
  if (others.length > 0) {
    const named = [only, ...others].map((folder) => `\n  --data-dir ${folder}`).join('')
    throw new CommandError(`Several servers run on this machine. Name the data directory of one:${named}`)
  }
  process.stderr.write(`fairlead: with the data directory ${only}, whose server runs on this machine\n`)
  return only
}
