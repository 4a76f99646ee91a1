import { mkdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { controlsOf } from '../../platform/control/client.ts'
import { installedSettings } from '../../platform/service-manager/installation.ts'
import { hasSystemd, propertiesOf, run, systemctl, unitIn } from '../../platform/service-manager/systemctl.ts'
import { serverUnitName } from '../../platform/service-manager/units.ts'
import { dataDirectoryAt } from '../../platform/startup/data-directory.ts'

/** Returns the unit of systemd that runs the server of a data directory, and would start it again after another end. */
export async function unitOf(dataDirectory: string): Promise<string | null> {
  if (!(await hasSystemd())) return null
  const settings = await installedSettings(serverUnitName)
  if (settings != null && settings.dataDirectory === dataDirectory) {
    const { ActiveState } = await propertiesOf(serverUnitName, ['ActiveState'])
    if (ActiveState !== 'inactive' && ActiveState !== 'failed') return serverUnitName
  }
  for (const { record } of await controlsOf(dataDirectoryAt(dataDirectory).run)) {
    const unit = unitIn(await readFile(`/proc/${record.pid}/cgroup`, 'utf8').catch(() => ''))
    // A server that was started by hand may be in the unit of another program, such as cron.
    if (unit !== null && (await propertiesOf(unit, ['MainPID']))['MainPID'] === String(record.pid)) return unit
  }
  return null
}

/** Lets systemd stop the server by SIGINT, at which it also stops apps, gateway and databases; after `timeoutMs` by force. */
export async function stopService(unit: string, verb: readonly string[], timeoutMs: number): Promise<void> {
  // Settings of a unit in /run are gone after a reboot.
  const folder = `/run/systemd/system/${unit}.d`
  const file = join(folder, '99-stop-everything.conf')
  const seconds = Math.ceil(timeoutMs / 1000) + 30
  // If these ended the command, the setting would stay, and the next restart of the service would stop all apps.
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  const goOn = () => undefined
  for (const signal of signals) process.on(signal, goOn)
  try {
    await mkdir(folder, { recursive: true })
    await writeFile(file, `[Service]\nKillSignal=SIGINT\nTimeoutStopSec=${seconds}\n`)
    await systemctl(['daemon-reload'])
    const stopped = await run('systemctl', [...verb, '--', unit], timeoutMs)
    if (stopped.code === 0) return
    await run('systemctl', ['kill', '--kill-who=main', '--signal=SIGKILL', '--', unit])
    await systemctl([...verb, '--', unit])
  } finally {
    await rm(file, { force: true })
    // An operator may have settings of this kind, too.
    await rmdir(folder).catch(() => undefined)
    await systemctl(['daemon-reload'])
    for (const signal of signals) process.off(signal, goOn)
  }
}
