import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import {
  type Hierarchy,
  parseHierarchy,
  type Unit,
  unitOf,
  usableControllers,
  type YieldingPlace,
} from '../../../platform/cgroups.ts'
import type { Config } from '../../../platform/config.ts'
import { hasSystemd, propertiesOf } from '../../../platform/service-manager/systemctl.ts'
import { buildsUnitName } from '../../../platform/service-manager/units.ts'

/** Returns the name of the control group of the server with this data directory, with the groups of its apps. */
export function groupName(directory: string): string {
  return `fairlead-${createHash('sha256').update(directory).digest('hex').slice(0, 16)}`
}

/** Returns the name of the folder, beside that of the apps, whose groups give way: of builds, build daemons and git. */
export const yieldingName = (directory: string): string => `${groupName(directory)}-yielding`

/** The folder in it with the groups of builds. */
export const buildsFolder = 'builds'

/**
 * Returns the name of the release or instance that a process belongs to by the paths of its control groups (cgroups(7)); `null` when
 * they are not those of this data directory. Older versions had builds beside apps.
 */
export function unitOfGroups(paths: readonly string[], directory: string): string | null {
  const [apps, yielding] = [groupName(directory), yieldingName(directory)]
  const own = paths.find((path) => {
    const folder = dirname(path)
    return basename(folder) === apps || (basename(folder) === buildsFolder && basename(dirname(folder)) === yielding)
  })
  return own === undefined ? null : unitOfGroup(basename(own))
}

/** Returns the name of the release or instance in that of a group. */
export const unitOfGroup = (group: string): string => group.replace(/\.(build|app)$/, '')

/** Returns where the server may make groups; `null` when nowhere, as on systems without control groups. */
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
 * Returns where the groups of builds are made, so that they give way: in the unit of builds where the groups of apps are in a unit of
 * their own, and otherwise beside those of apps, as where an older version has installed the units.
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
 * Chooses the top where groups can be made there, and otherwise the group that this process is in, if that is a scope that
 * systemd has handed over. That its files can be written is not enough: a user's manager owns the groups of all units of
 * that user. A service is not enough either: systemd starts it again in its group, which fails while apps run below it.
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
