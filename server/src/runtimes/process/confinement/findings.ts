import { type Controller, controllers, type Hierarchy, usableControllers } from '../../../platform/cgroups.ts'
import type { Config } from '../../../platform/config.ts'
import type { Finding } from '../../../platform/machine/finding.ts'
import { hasSystemd, hasUserManager } from '../../../platform/service-manager/systemctl.ts'
import { readHierarchy } from './groups.ts'

const losses: Readonly<Record<Controller, string>> = {
  memory: 'memory is measured from outside, ten times a second where it may have grown',
  cpu: 'apps are not limited to the CPUs of their plan',
  pids: 'processes are limited only for apps that run as a user of their own',
  freezer: 'apps that fork quickly take longer to end',
}

/** Says which limits the kernel enforces for builds and apps of a server that is started as this program was. */
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

/** Returns what `fairlead doctor` prints behind "ok" or "missing": a part that is missing comes first. */
export function foundIn(
  version: Hierarchy['version'] | null,
  there: readonly Controller[],
  lost: readonly Controller[],
): string {
  if (version === null || there.length === 0) return 'none that this server may use'
  if (lost.length === 0) return `version ${version}: ${there.join(', ')}`
  return `${lost.join(', ')}; version ${version} is there with ${there.join(', ')}`
}

/** Returns the one thing to do for control groups, or for those controllers that are missing. */
export function remedyFor(machine: {
  readonly place: Config['cgroups']
  /** Of the groups that can be used; `null` for none. */
  readonly version: Hierarchy['version'] | null
  readonly isRoot: boolean
  readonly hasSystemd: boolean
  /** True when the user has a systemd of its own. */
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
  return 'Start the server in a group of its own: systemd-run --user --scope -p Delegate=yes fairlead serve (or npm start).'
}

/** Less must be left for the server, its database and apps. */
const mostShareOfBuilds = 0.8

/**
 * Compares the memory of all builds that run at once with that of the machine.
 *
 * @param machine its bytes
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
