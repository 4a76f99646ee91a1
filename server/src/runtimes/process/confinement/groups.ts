import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type Cgroups,
  type Hierarchy,
  parseHierarchy,
  type Unit,
  unitOf,
  usableControllers,
} from '../../../platform/cgroups.ts'
import type { Config } from '../../../platform/config.ts'
import { hasSystemd, propertiesOf } from '../../../platform/service-manager/systemctl.ts'
import type { GroupFolders } from './group-usage.ts'

/** Returns the name of the control group of the server with this data directory. */
export function groupName(directory: string): string {
  return `fairlead-${createHash('sha256').update(directory).digest('hex').slice(0, 16)}`
}

/** Returns where the server may make groups; `null` when nowhere, as on systems without control groups. */
export async function readHierarchy(place: Config['cgroups']): Promise<Hierarchy | null> {
  if (place === 'none') return null
  try {
    const [cgroup, mountinfo] = await Promise.all([
      readFile('/proc/self/cgroup', 'utf8'),
      readFile('/proc/self/mountinfo', 'utf8'),
    ])
    if (place !== null) return parseHierarchy(cgroup, mountinfo, place)
    return await findHierarchy(cgroup, mountinfo, {
      isUsable: async (hierarchy) => (await usableControllers(hierarchy)).length > 0,
      isDelegated,
    })
  } catch {
    return null
  }
}

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

/** Returns the folders of the server's own groups, by the controllers that limit them. */
export function groupFolders({ controllers }: Cgroups, { folders }: Hierarchy, name: string): GroupFolders {
  return Object.fromEntries(
    [...controllers].flatMap((controller) => {
      const folder = folders[controller]
      return folder === undefined ? [] : [[controller, join(folder, name)]]
    }),
  )
}
