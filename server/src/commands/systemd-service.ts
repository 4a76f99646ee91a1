import { execFile } from 'node:child_process'
import { chown, mkdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { readDotenv } from '../contract/dotenv.ts'
import { type Config, loadConfig, publicOrigin } from '../platform/config.ts'
import { controlsOf } from '../platform/control/client.ts'
import { dataDirectoryAt } from '../platform/data-directory.ts'
import { installEverything } from '../platform/debian-packages.ts'
import { readOptional } from '../platform/files.ts'
import { ownRoot } from '../platform/package-files.ts'
import { listenAndClose } from '../platform/ports.ts'
import { sendSignal } from '../platform/processes.ts'
import { assertReachable } from '../platform/reachable-files.ts'
import {
  hasSystemd,
  lastErrors,
  processesOfUnit,
  propertiesOf,
  run,
  systemctl,
  unitIn,
} from '../platform/service-manager/systemctl.ts'
import {
  appsUnitName,
  buildsUnitName,
  environmentFile,
  installedSettings,
  linkCurrentVersion,
  serverUnitName,
  type UnitSettings,
  unitDrift,
  unitFolder,
  unitsFor,
  writeOnce,
  writeUnits,
} from '../platform/service-manager/units.ts'
import { clusterUser, isRoot } from '../platform/state.ts'
import type { OsUser } from '../platform/users.ts'
import { currentLink, versionAt } from '../platform/versions/versions.ts'
import { telling } from './client/wait.ts'
import { CommandError } from './shared.ts'

export interface InstallFlags {
  readonly dataDir: string
  readonly user?: string
  readonly withoutIsolation?: true
  readonly dryRun?: true
  readonly force?: true
}

/** A little longer than TimeoutStartSec= of the unit. */
const startTimeoutMs = 16 * 60_000

export async function install(flags: InstallFlags): Promise<void> {
  const settings = await settingsFor(flags)
  const units = unitsFor(settings)
  if (flags.dryRun === true) {
    for (const [name, text] of Object.entries(units)) print(`# ${unitFolder}/${name}`, text)
    return print(`# ${environmentFile}, unless it exists`, firstEnvironment)
  }
  const config = await checked(settings)
  if (flags.withoutIsolation !== true) await assertIsolation(config, settings)
  const user = settings.user === null ? null : await userNamed(settings.user)
  const isNew = (await installedSettings(serverUnitName)) === undefined
  const drift = isNew ? {} : await unitDrift(settings)
  if (Object.keys(drift).length > 0 && flags.force !== true) throw differs(drift)
  if (user !== null) await ownDirectory(settings.dataDirectory, user)
  const version = await linkCurrentVersion(settings.dataDirectory, ownRoot)
  const madeFile = await writeOnce(environmentFile, firstEnvironment)
  await writeUnits(settings)
  await systemctl(['daemon-reload'])
  print(`The service runs the version in ${version}. Starting it …`)
  await telling('starting the service', start)
  report(config, settings, madeFile, Object.keys(drift).length > 0)
}

/** Stops the service and all its processes, and removes its units. Keeps data and settings. */
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

/**
 * Explains the state of the service. Exit status as of `systemctl status`: 0 running, 3 not running, 4 not installed.
 */
export async function status(): Promise<void> {
  const settings = (await hasSystemd()) ? await installedSettings(serverUnitName) : undefined
  if (settings === undefined) {
    process.exitCode = 4
    return printLines('installed:  no. Install the service with: fairlead service install')
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
  printLines(`installed:  ${unitFolder}/${serverUnitName}`, `enabled:    ${properties['UnitFileState'] ?? 'unknown'}`)
  printLines(`active:     ${activity(properties)}`, `status:     ${properties['StatusText'] || '-'}`)
  printLines(...(await versionLines(settings)), ...(await driftLines(settings)))
  const errors = await lastErrors(serverUnitName)
  if (errors.length > 0) printLines('last errors (journalctl -u fairlead):', ...errors.map((line) => `  ${line}`))
}

/**
 * Lets systemd stop the server with SIGINT, which also stops apps, gateway and databases; by force after `timeoutMs`.
 */
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

/** Returns the systemd unit that runs the server of a data directory and would restart it; null without a unit. */
export async function unitOf(dataDirectory: string): Promise<string | null> {
  if (!(await hasSystemd())) return null
  const settings = await installedSettings(serverUnitName)
  if (settings != null && settings.dataDirectory === dataDirectory) {
    const { ActiveState } = await propertiesOf(serverUnitName, ['ActiveState'])
    if (ActiveState !== 'inactive' && ActiveState !== 'failed') return serverUnitName
  }
  for (const { record } of await controlsOf(dataDirectoryAt(dataDirectory).run)) {
    const unit = unitIn(await readFile(`/proc/${record.pid}/cgroup`, 'utf8').catch(() => ''))
    // A server that was started by hand may be in another program's unit, such as cron's.
    if (unit !== null && (await propertiesOf(unit, ['MainPID']))['MainPID'] === String(record.pid)) return unit
  }
  return null
}

async function settingsFor({ dataDir, user }: InstallFlags): Promise<UnitSettings> {
  const dataDirectory = resolve(dataDir)
  // `checked` reports mistakes before any file is written. With --dry-run, the user may not be allowed to read the
  // settings.
  const config = await serviceConfig(dataDirectory).catch(() => null)
  const ports = config?.edge ? [config.edge.httpPort, config.edge.httpsPort] : []
  const isRootService = user === undefined || user === 'root'
  return {
    node: process.execPath,
    dataDirectory,
    user: isRootService ? null : user,
    hasLowPorts: !isRootService && ports.some((port) => port < 1024),
  }
}

async function checked(settings: UnitSettings): Promise<Config> {
  if (!(await hasSystemd())) {
    throw new CommandError(
      'systemd does not run this machine. Run "fairlead serve" under the service manager that does.',
    )
  }
  if (!isRoot()) {
    throw new CommandError(
      'Only root may install a service: sudo fairlead service install. With --user NAME the server then runs as that user.',
    )
  }
  if ((await run('systemd-notify', ['--version'])).code !== 0) {
    throw new CommandError('systemd-notify is missing, by which the server tells systemd that it is ready. Install it.')
  }
  const config = await serviceConfig(settings.dataDirectory)
  const user = settings.user === null ? clusterUser(config) : await userNamed(settings.user)
  await assertReachable(settings.dataDirectory, user)
  const { ActiveState } = await propertiesOf(serverUnitName, ['ActiveState'])
  if (ActiveState !== 'active') await assertFree(config.host, config.port)
  return config
}

/** Checks that this machine can isolate builds and apps. Networks that a setting turns off do not count as missing. */
async function assertIsolation(config: Config, { user }: UnitSettings): Promise<void> {
  const { isolationFindings } = await import('../doctor.ts')
  const found = await isolationFindings(config, user === null)
  const gaps = found.filter(
    ({ subject, state }) => state !== 'ok' && (subject !== 'networks' || config.appNetwork !== null),
  )
  if (gaps.length === 0) return
  const lines = gaps.map(({ subject, found, cost }) => `  ${subject}: ${found}; ${cost}\n`).join('')
  throw new CommandError(
    `Nothing was installed, because builds and apps would not be isolated:\n${lines}` +
      `On Debian, this installs all programs that a server uses:\n  ${installEverything()}\n` +
      'To go on all the same, add --without-isolation to the command.',
  )
}

/** Loads the configuration from the settings file of the service, because the service does not see our environment. */
async function serviceConfig(dataDirectory: string): Promise<Config> {
  const { variables, problems } = readDotenv((await readOptional(environmentFile)) ?? '')
  const [problem] = problems
  if (problem !== undefined) throw new CommandError(`${environmentFile}, line ${problem.line}: ${problem.message}`)
  return loadConfig({ dataDir: dataDirectory }, variables)
}

async function userNamed(name: string): Promise<OsUser> {
  const id = async (flag: string) => Number((await promisify(execFile)('id', [flag, '--', name])).stdout)
  try {
    return { uid: await id('-u'), gid: await id('-g') }
  } catch {
    throw new CommandError(`There is no user ${name}: useradd --system --create-home ${name}`)
  }
}

/** Creates the data directory for the user of the server. Never changes the owner of an existing directory. */
async function ownDirectory(path: string, user: OsUser): Promise<void> {
  const made = await mkdir(path, { recursive: true, mode: 0o711 })
  if (made !== undefined) await chown(path, user.uid, user.gid)
}

async function assertFree(host: string, port: number): Promise<void> {
  const error = await listenAndClose(port, host)
  if (error === null) return
  throw new CommandError(
    `${host}:${port}: ${error.message}. Stop the program that listens there, or set FAIRLEAD_PORT in ${environmentFile}.`,
  )
}

function differs(drift: Readonly<Record<string, readonly string[]>>): CommandError {
  const changes = Object.entries(drift).flatMap(([name, lines]) => [`${unitFolder}/${name}:`, ...lines])
  return new CommandError(
    `The installed unit differs from the unit of this version, and was kept:\n${changes.join('\n')}\n` +
      'Put your changes into "systemctl edit fairlead", and replace the unit with --force.',
  )
}

/** Returns when the server is ready, because the unit has Type=notify. */
async function start(): Promise<void> {
  const { code, stderr } = await run('systemctl', ['enable', '--now', serverUnitName], startTimeoutMs)
  if (code === 0) return
  const errors = await lastErrors(serverUnitName)
  throw new CommandError(
    `The service is installed, but did not start, and systemd keeps trying:\n${[...errors, stderr.trim()].join('\n')}\n` +
      'See: fairlead service status, and journalctl -u fairlead',
  )
}

function report(config: Config, { dataDirectory, user }: UnitSettings, madeFile: boolean, changed: boolean): void {
  print(
    `Fairlead runs on ${publicOrigin(config, config.port)}, and starts with this machine.`,
    `  first user:   the link in: journalctl -u fairlead -o cat | grep setup`,
    `  API key:      ${user === null ? '' : `sudo -u ${user} `}fairlead keys create --name me --data-dir ${dataDirectory}`,
    `  settings:     ${environmentFile}${madeFile ? ' (new, all commented out)' : ''}; then: systemctl restart fairlead`,
    '  state:        fairlead service status, fairlead doctor',
    ...(changed ? ['The unit was replaced; the running server has it after: systemctl restart fairlead'] : []),
  )
}

const print = (...lines: readonly string[]): void => void process.stdout.write(`${lines.join('\n')}\n`)

/** The initial settings file of the service. It sets nothing, and names the settings that most servers need. */
export const firstEnvironment = `# The settings of Fairlead's service. Each is explained in docs/configuration.md.
# After a change: systemctl restart fairlead

# The address to listen on; 0.0.0.0 lets other machines in.
#FAIRLEAD_HOST=127.0.0.1
#FAIRLEAD_PORT=3000

# HTTPS under your domain: the dashboard at fairlead.<domain>, apps at names below it. Point <domain> and *.<domain>
# at this machine, and install Caddy.
#FAIRLEAD_DOMAIN=example.com
#FAIRLEAD_ACME_EMAIL=you@example.com

# Instead, with your proxy: the address by which others reach the server, and the domain of apps.
#FAIRLEAD_PUBLIC_URL=https://fairlead.example.com
#FAIRLEAD_APPS_DOMAIN=apps.example.com
#FAIRLEAD_TRUSTED_PROXIES=127.0.0.1

# Your PostgreSQL server instead of the embedded one.
#DATABASE_URL=postgresql://fairlead:PASSWORD@db.example.com:5432/fairlead

# How builds reach a package registry.
#FAIRLEAD_BUILD_ENV={"npm_config_registry":"https://npm.example.com"}
`

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

const printLines = (...lines: readonly string[]): void =>
  void (lines.length > 0 && process.stdout.write(`${lines.join('\n')}\n`))

/** Longer than TimeoutStopSec= of the unit. */
const stopTimeoutMs = 120_000
const leftoverTimeoutMs = 30_000
const pollMs = 100
const groupUnits = [appsUnitName, buildsUnitName]

async function stopEverything(): Promise<void> {
  await telling('stopping the service', () => stopService(serverUnitName, ['disable', '--now'], stopTimeoutMs))
  await run('systemctl', ['stop', ...groupUnits], stopTimeoutMs)
  await endLeftovers()
}

/** Ends processes that an earlier server or an unclean stop left behind. SIGINT is a fast shutdown for PostgreSQL. */
async function endLeftovers(): Promise<void> {
  const until = performance.now() + leftoverTimeoutMs
  for (const pid of await processesOfUnit(serverUnitName)) sendSignal(pid, 'SIGINT')
  while ((await processesOfUnit(serverUnitName)).length > 0 && performance.now() < until) await sleep(pollMs)
  for (const pid of await processesOfUnit(serverUnitName)) sendSignal(pid, 'SIGKILL')
}
