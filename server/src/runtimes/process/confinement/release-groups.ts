import { join } from 'node:path'
import type { Cgroups } from '../../../platform/cgroups.ts'
import { releaseOfUnit } from '../release/local-instance.ts'
import type { HostCapabilities } from './capabilities.ts'
import { unitOfGroup } from './groups.ts'
import { type Kind, kinds } from './limits.ts'

/*
 * The control groups of releases: those of apps, and those of builds, which give way to them. Older versions made the groups of builds
 * among those of apps, so what ends and lists builds looks there, too.
 */

type Host = Pick<HostCapabilities, 'cgroups' | 'builds'>

/** Returns the name of the group of a release or of an instance. */
export const groupOf = (unit: string, kind: Kind): string => `${unit}.${kind}`

/** Returns the groups among which a new one of this kind is made. */
export const groupsFor = ({ cgroups, builds }: Host, kind: Kind): Cgroups | null =>
  kind === 'build' ? builds : cgroups

/** Returns all groups among which there may be one of this kind. */
export const groupsWith = ({ cgroups, builds }: Host, kind: Kind): readonly Cgroups[] =>
  (kind === 'build' ? [builds, cgroups] : [cgroups]).filter((each) => each !== null)

/** Returns the files to which a process writes its pid to join the group of an app that is there. */
export function filesToJoin({ cgroups }: Host, unit: string): string[] {
  const folders = new Set(Object.values(cgroups?.folders ?? {}))
  return [...folders].map((folder) => join(folder, groupOf(unit, 'app'), 'cgroup.procs'))
}

export async function processesIn(host: Host, unit: string, only: Kind | undefined): Promise<number[]> {
  const listed = (only === undefined ? kinds : [only]).flatMap((kind) =>
    groupsWith(host, kind).map((groups) => groups.processesOf(groupOf(unit, kind))),
  )
  return (await Promise.all(listed)).flat()
}

/** Lists the releases and instances that have groups. */
export async function unitsIn(host: Host): Promise<string[]> {
  return (await allGroups(host)).map(({ name }) => unitOfGroup(name))
}

/** Lists the releases whose groups have processes. */
export async function releasesIn(host: Host): Promise<string[]> {
  const found: string[] = []
  for (const { groups, name } of await allGroups(host)) {
    if ((await groups.processesOf(name)).length > 0) found.push(releaseOfUnit(unitOfGroup(name)))
  }
  return found
}

async function allGroups({ cgroups, builds }: Host): Promise<{ readonly groups: Cgroups; readonly name: string }[]> {
  const all = [cgroups, builds].filter((each) => each !== null)
  return (await Promise.all(all.map(async (groups) => (await groups.names()).map((name) => ({ groups, name }))))).flat()
}
