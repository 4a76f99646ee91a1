import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { installedSettings } from '../../platform/service-manager/installation.ts'
import { hasSystemd, propertiesOf, systemctl } from '../../platform/service-manager/systemctl.ts'
import { serverUnitName } from '../../platform/service-manager/units.ts'

/** Longer than the unit's own TimeoutStopSec=. */
export const stopTimeoutMs = 120_000

/** True when systemd runs the server of a data directory, and would start it again if it ended otherwise than by systemd. */
export async function isService(dataDirectory: string): Promise<boolean> {
  if (!(await hasSystemd())) return false
  const settings = await installedSettings(serverUnitName)
  if (settings == null || settings.dataDirectory !== dataDirectory) return false
  const { ActiveState } = await propertiesOf(serverUnitName, ['ActiveState'])
  return ActiveState === 'active' || ActiveState === 'activating' || ActiveState === 'reloading'
}

/** Lets systemd stop the server by SIGINT, at which it also stops apps, gateway and databases. */
export async function stopService(verb: readonly string[]): Promise<void> {
  // Settings of a unit in /run are gone after a reboot.
  const folder = `/run/systemd/system/${serverUnitName}.d`
  await mkdir(folder, { recursive: true })
  try {
    await writeFile(join(folder, '99-stop-everything.conf'), '[Service]\nKillSignal=SIGINT\n')
    await systemctl(['daemon-reload'])
    await systemctl([...verb, serverUnitName], stopTimeoutMs)
  } finally {
    await rm(folder, { recursive: true, force: true })
    await systemctl(['daemon-reload'])
  }
}
