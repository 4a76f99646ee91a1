import { execFile } from 'node:child_process'
import { chown, mkdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { readDotenv } from '../../contract/dotenv.ts'
import { type Config, loadConfig, publicOrigin } from '../../platform/config.ts'
import { readOptional } from '../../platform/files.ts'
import { installEverything } from '../../platform/machine/debian-packages.ts'
import { listenAndClose } from '../../platform/machine/port.ts'
import { assertReachable } from '../../platform/machine/reach.ts'
import {
  installedSettings,
  linkCurrentVersion,
  unitDrift,
  writeOnce,
  writeUnits,
} from '../../platform/service-manager/installation.ts'
import { hasSystemd, lastErrors, propertiesOf, run, systemctl } from '../../platform/service-manager/systemctl.ts'
import {
  environmentFile,
  serverUnitName,
  type UnitSettings,
  unitFolder,
  unitsFor,
} from '../../platform/service-manager/units.ts'
import { clusterUser, isRoot } from '../../platform/startup/state.ts'
import type { OsUser } from '../../platform/users.ts'
import { ownRoot } from '../../platform/versions/own-package.ts'
import { telling } from '../client/wait.ts'
import { CommandError } from '../shared.ts'
import { firstEnvironment } from './environment.ts'

export interface InstallFlags {
  readonly dataDir: string
  readonly user?: string
  readonly withoutIsolation?: true
  readonly dryRun?: true
  readonly force?: true
}

/** As long as the unit's own TimeoutStartSec=, and a little. */
const startTimeoutMs = 16 * 60_000

/** Installs and starts the service, after all that can be wrong has been checked. */
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

async function settingsFor({ dataDir, user }: InstallFlags): Promise<UnitSettings> {
  const dataDirectory = resolve(dataDir)
  // `checked` reports mistakes in the settings before anything is written. With --dry-run they may be unreadable for the user.
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

/** Checks that the service can run here, and returns the configuration that it will have. */
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

/** Checks that this machine isolates builds and apps. Networks that a setting turns off are not missing. */
async function assertIsolation(config: Config, { user }: UnitSettings): Promise<void> {
  const { isolationFindings } = await import('../../doctor.ts')
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

/** Loads the configuration from the file of the service. The environment of this command is not the service's. */
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

/** The user of the server must own its data directory. An existing directory is not handed to another user. */
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
    `The installed unit differs from the one that this version writes, and was kept:\n${changes.join('\n')}\n` +
      'Put changes of your own into "systemctl edit fairlead", and replace the unit with --force.',
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
