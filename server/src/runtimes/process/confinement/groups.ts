import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import {
  type Controller,
  controllers,
  type Hierarchy,
  parseHierarchy,
  type Unit,
  unitOf,
  usableControllers,
  type YieldingPlace,
} from '../../../platform/cgroups.ts'
import type { Config } from '../../../platform/config.ts'
import type { Finding } from '../../../platform/finding.ts'
import { hasSystemd, hasUserManager, propertiesOf } from '../../../platform/service-manager/systemctl.ts'
import { buildsUnitName } from '../../../platform/service-manager/units.ts'

/** Returns the name of the control group that contains the groups of apps. The data directory identifies the server. */
export function groupName(directory: string): string {
  return `fairlead-${createHash('sha256').update(directory).digest('hex').slice(0, 16)}`
}

/**
 * Returns the name of the folder whose groups yield to apps: groups of builds, build daemons and git. It is beside the
 * folder of apps.
 */
export const yieldingName = (directory: string): string => `${groupName(directory)}-yielding`

export const buildsFolder = 'builds'

/**
 * Returns the name of the release or instance of a process, by the paths of its control groups (cgroups(7)). Returns
 * `null` for groups outside this data directory.
 */
export function unitOfGroups(paths: readonly string[], directory: string): string | null {
  const [apps, yielding] = [groupName(directory), yieldingName(directory)]
  const own = paths.find((path) => {
    const folder = dirname(path)
    return basename(folder) === apps || (basename(folder) === buildsFolder && basename(dirname(folder)) === yielding)
  })
  return own === undefined ? null : unitOfGroup(basename(own))
}

export const unitOfGroup = (group: string): string => group.replace(/\.(build|app)$/, '')

/**
 * Returns the hierarchy in which the server may make groups; `null` without one, as on systems without control groups.
 */
export async function readHierarchy(place: Config['cgroups']): Promise<Hierarchy | null> {
  if (place === 'none') return null
  try {
    const [cgroup, mountinfo] = await Promise.all([
      readFile('/proc/self/cgroup', 'utf8'),
      readFile('/proc/self/mountinfo', 'utf8'),
    ])
    if (place !== null) return parseHierarchy(cgroup, mountinfo, place)
    return await findHierarchy(cgroup, mountinfo, { isUsable, isDelegated })
  } catch {
    return null
  }
}

/**
 * Returns the hierarchy for the groups of builds, so that builds yield to apps. When the groups of apps are in a
 * separate unit, builds have their own unit, if it exists. Otherwise builds are beside apps.
 */
export async function placeOfBuilds(place: Config['cgroups']): Promise<YieldingPlace | null> {
  if (place?.endsWith('.service') === true) {
    const own = await readHierarchy(buildsUnitName)
    if (own !== null && (await isUsable(own))) return { hierarchy: own, isOwn: true }
  }
  const hierarchy = await readHierarchy(place)
  return hierarchy === null ? null : { hierarchy, isOwn: false }
}

const isUsable = async (hierarchy: Hierarchy): Promise<boolean> => (await usableControllers(hierarchy)).length > 0

/**
 * Chooses the top of the hierarchy where this process can make groups there. Otherwise it chooses the group of this
 * process, but only a scope that systemd has delegated. Write access alone is not enough: the manager of a user owns
 * the groups of all units of the user. A service is not enough either: systemd restarts the service in its group, which
 * fails while apps run below the group.
 */
export async function findHierarchy(
  cgroup: string,
  mountinfo: string,
  system: {
    readonly isUsable: (hierarchy: Hierarchy) => Promise<boolean>
    readonly isDelegated: (unit: Unit) => Promise<boolean>
  },
): Promise<Hierarchy | null> {
  const top = parseHierarchy(cgroup, mountinfo, 'top')
  if (top !== null && (await system.isUsable(top))) return top
  const [own, unit] = [parseHierarchy(cgroup, mountinfo, 'delegated'), unitOf(cgroup)]
  if (own === null || unit?.name.endsWith('.scope') !== true || !(await system.isUsable(own))) return null
  return (await system.isDelegated(unit)) ? own : null
}

async function isDelegated({ name, manager }: Unit): Promise<boolean> {
  return (await hasSystemd()) && (await propertiesOf(name, ['Delegate'], manager))['Delegate'] === 'yes'
}

const losses: Readonly<Record<Controller, string>> = {
  memory: 'memory is measured from outside, ten times a second where it may have grown',
  cpu: 'apps are not limited to the CPUs of their plan',
  pids: 'processes are limited only for apps that run as a separate user',
  freezer: 'apps that fork quickly take longer to end',
}

/**
 * Tells which limits the kernel enforces for builds and apps when the server starts in the same way as this program.
 */
export async function controlGroups({ cgroups }: Pick<Config, 'cgroups'>, isRoot: boolean): Promise<Finding> {
  const subject = 'control groups'
  const hierarchy = await readHierarchy(cgroups)
  const there = hierarchy === null ? [] : await usableControllers(hierarchy)
  const lost = controllers.filter((each) => !there.includes(each))
  const found = foundIn(hierarchy?.version ?? null, there, lost)
  if (lost.length === 0) return { subject, state: 'ok', found }
  const remedy = remedyFor({
    place: cgroups,
    version: there.length === 0 ? null : (hierarchy?.version ?? null),
    isRoot,
    hasSystemd: await hasSystemd(),
    hasUserManager: await hasUserManager(),
  })
  const cost = `without ${lost.join(', ')}: ${lost.map((each) => losses[each]).join('; ')}. ${remedy}`
  return { subject, state: 'missing', found, cost }
}

/** Returns the text that `fairlead doctor` prints after "ok" or "missing". Missing parts come first. */
export function foundIn(
  version: Hierarchy['version'] | null,
  there: readonly Controller[],
  lost: readonly Controller[],
): string {
  if (version === null || there.length === 0) return 'none that this server may use'
  if (lost.length === 0) return `version ${version}: ${there.join(', ')}`
  return `${lost.join(', ')}; version ${version} is there with ${there.join(', ')}`
}

/** Tells the operator how to get control groups, or the missing controllers. */
export function remedyFor(machine: {
  readonly place: Config['cgroups']
  /** The version of the usable groups; `null` without any. */
  readonly version: Hierarchy['version'] | null
  readonly isRoot: boolean
  readonly hasSystemd: boolean
  readonly hasUserManager: boolean
}): string {
  const { place, version, isRoot } = machine
  if (place === 'none') return 'Remove the setting FAIRLEAD_CGROUPS=none.'
  if (version === 1 && isRoot) return 'Start the machine with version 2 of control groups.'
  if (!machine.hasSystemd)
    return 'Start the server where it can write to the top of control groups, or on a machine with systemd.'
  if (version === 2 && !isRoot) {
    return 'Let the systemd of users have all controllers: Delegate=yes for user@.service (sudo systemctl edit user@.service).'
  }
  if (isRoot) return 'Run the server as a service: fairlead service install.'
  if (!machine.hasUserManager) return 'Run the server as a service: sudo fairlead service install.'
  return 'Start the server in a separate group: systemd-run --user --scope -p Delegate=yes fairlead serve (or npm start).'
}

/** The rest is for the server, its database and apps. */
const mostShareOfBuilds = 0.8

/**
 * Compares the limit of all concurrent builds with the machine's memory.
 *
 * @param machine in bytes
 */
export function buildMemory({ deploys }: Pick<Config, 'deploys'>, machine: number): Finding {
  const { builds, buildMemoryBytes } = deploys
  const [each, all] = [buildMemoryBytes, machine].map((bytes) => `${Math.floor(bytes / 1_000_000)} MB`)
  const found = `${builds} at once, each with at most ${each} of ${all}`
  if (builds * buildMemoryBytes <= machine * mostShareOfBuilds) return { subject: 'builds', state: 'ok', found }
  const cost =
    'together they can use up the memory of this machine; its kernel then ends builds first, and apps after them. Set FAIRLEAD_BUILDS or FAIRLEAD_BUILD_MEMORY_MB lower.'
  return { subject: 'builds', state: 'missing', found, cost }
}
