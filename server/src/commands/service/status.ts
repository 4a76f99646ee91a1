import { installedSettings, unitDrift } from '../../platform/service-manager/installation.ts'
import { hasSystemd, lastErrors, propertiesOf } from '../../platform/service-manager/systemctl.ts'
import { serverUnitName, type UnitSettings, unitFolder } from '../../platform/service-manager/units.ts'
import { currentLink, versionAt } from '../../platform/versions/installed.ts'

/** Explains the state of the service. The exit status is that of `systemctl status`: 0 when it runs, 3 when not, 4 without it. */
export async function status(): Promise<void> {
  const settings = (await hasSystemd()) ? await installedSettings(serverUnitName) : undefined
  if (settings === undefined) {
    process.exitCode = 4
    return print('installed:  no. Install the service with: fairlead service install')
  }
  const properties = await propertiesOf(serverUnitName, [
    'ActiveState',
    'SubState',
    'ActiveEnterTimestamp',
    'UnitFileState',
    'MainPID',
    'NRestarts',
    'StatusText',
    'Result',
  ])
  if (properties['ActiveState'] !== 'active') process.exitCode = 3
  print(`installed:  ${unitFolder}/${serverUnitName}`, `enabled:    ${properties['UnitFileState'] ?? 'unknown'}`)
  print(`active:     ${activity(properties)}`, `status:     ${properties['StatusText'] || '-'}`)
  print(...(await versionLines(settings)), ...(await driftLines(settings)))
  const errors = await lastErrors(serverUnitName)
  if (errors.length > 0) print('last errors (journalctl -u fairlead):', ...errors.map((line) => `  ${line}`))
}

function activity(properties: Readonly<Record<string, string>>): string {
  const { ActiveState, SubState, ActiveEnterTimestamp, MainPID, NRestarts, Result } = properties
  const restarts = NRestarts === '0' ? '' : `, restarted ${NRestarts} times by systemd`
  if (ActiveState === 'active') return `${SubState} since ${ActiveEnterTimestamp}, pid ${MainPID}${restarts}`
  return `${ActiveState} (${SubState}, ${Result})${restarts}`
}

async function versionLines(settings: UnitSettings | null): Promise<string[]> {
  if (settings === null) return []
  const link = currentLink(settings.dataDirectory)
  const linked = await versionAt(link)
  if (linked !== null) return [`version:    ${linked.version} in ${linked.root}`]
  return [`version:    none: ${link} leads to no version. Run: fairlead service install`]
}

async function driftLines(settings: UnitSettings | null): Promise<string[]> {
  if (settings === null) return ['unit:       starts something else than fairlead service install writes']
  const drift = Object.entries(await unitDrift(settings))
  if (drift.length === 0) return ['unit:       as this version writes it']
  return [
    'unit:       differs from what this version writes (- installed, + this version):',
    ...drift.flatMap(([name, lines]) => [`  ${name}`, ...lines.map((line) => `    ${line}`)]),
    '            Replace it with: fairlead service install --force',
  ]
}

const print = (...lines: readonly string[]): void =>
  void (lines.length > 0 && process.stdout.write(`${lines.join('\n')}\n`))
