import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sendSignal } from '../../platform/processes.ts'
import { installedSettings } from '../../platform/service-manager/installation.ts'
import { hasSystemd, processesOfUnit, run, systemctl } from '../../platform/service-manager/systemctl.ts'
import {
  appsUnitName,
  buildsUnitName,
  environmentFile,
  serverUnitName,
  unitFolder,
} from '../../platform/service-manager/units.ts'
import { isRoot } from '../../platform/startup/state.ts'
import { telling } from '../client/wait.ts'
import { CommandError } from '../shared.ts'
import { stopService } from './stop-service.ts'

/** Longer than the unit's own TimeoutStopSec=. */
const stopTimeoutMs = 120_000
const leftoverTimeoutMs = 30_000
const pollMs = 100
/** The units with the control groups of apps and of builds. An older version has installed the first one alone. */
const groupUnits = [appsUnitName, buildsUnitName]

/** Stops the service with everything that it started, and removes its units. Data and settings are kept. */
export async function uninstall(): Promise<void> {
  if (!(await hasSystemd())) throw new CommandError('systemd does not run this machine: there is no service here.')
  if (!isRoot()) throw new CommandError('Only root may remove a service: sudo fairlead service uninstall')
  const settings = await installedSettings(serverUnitName)
  if (settings === undefined) throw new CommandError(`There is no ${unitFolder}/${serverUnitName}.`)
  await stopEverything()
  for (const unit of [serverUnitName, ...groupUnits]) await rm(join(unitFolder, unit), { force: true })
  await systemctl(['daemon-reload'])
  await run('systemctl', ['reset-failed', serverUnitName, ...groupUnits])
  const data = settings === null ? 'The data directory' : settings.dataDirectory
  process.stdout.write(
    `The service is stopped and removed. Kept: ${data} with all data, and ${environmentFile} with the settings.\n`,
  )
}

async function stopEverything(): Promise<void> {
  await telling('stopping the service', () => stopService(serverUnitName, ['disable', '--now'], stopTimeoutMs))
  await run('systemctl', ['stop', ...groupUnits], stopTimeoutMs)
  await endLeftovers()
}

/** Ends what a server that was not running, or did not end in order, left behind. SIGINT is a fast shutdown for PostgreSQL. */
async function endLeftovers(): Promise<void> {
  const until = performance.now() + leftoverTimeoutMs
  for (const pid of await processesOfUnit(serverUnitName)) sendSignal(pid, 'SIGINT')
  while ((await processesOfUnit(serverUnitName)).length > 0 && performance.now() < until) await sleep(pollMs)
  for (const pid of await processesOfUnit(serverUnitName)) sendSignal(pid, 'SIGKILL')
}
